"""Checkpoints that 0.1 wrote go on to the weights with which 0.1's own run ended."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from tests import warm

pytest.importorskip("lt")
pytest.importorskip("lt_data")

pytestmark = pytest.mark.filterwarnings("ignore::lt.errors.LtWarning")  # that the files have moved is said, rightly

KEPT = Path(__file__).parent / "files_of_0_1"
_spec = importlib.util.spec_from_file_location("projects_of_0_1", KEPT / "projects.py")
projects = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(projects)

ON_ONE = ["epochs_middle", "epochs_end", "window_middle", "validation_middle", "manual", "named", "callbacks"]


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Whether a run from the start ends here with the very bits that it had on the machine that wrote the files."""
    trainer, module = projects.trained("epochs_middle", tmp_path_factory.mktemp("whole"))
    end = torch.load(KEPT / "epochs_middle.end.pt", weights_only=True)
    assert trainer.global_step == end["step"]
    return all(torch.equal(value, end["weights"][key]) for key, value in projects.weights_of(module).items())


def assert_ends_as_0_1_did(name, weights, step, exact):
    end = torch.load(KEPT / f"{name}.end.pt", weights_only=True)
    assert step == end["step"]
    for key, value in end["weights"].items():
        if exact:
            assert torch.equal(weights[key], value), key
        else:
            torch.testing.assert_close(weights[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ON_ONE)
def test_a_checkpoint_of_0_1_goes_on_as_if_nothing_had_changed(name, tmp_path, exact):
    path = shutil.copy(KEPT / f"{name}.ckpt", tmp_path)
    trainer, module = projects.trained(name, tmp_path, path)
    assert_ends_as_0_1_did(name, projects.weights_of(module), trainer.global_step, exact)


@pytest.mark.parametrize(
    "name", [pytest.param("two_ranks", marks=pytest.mark.ddp), pytest.param("sharded", marks=pytest.mark.fsdp)]
)
def test_a_checkpoint_of_0_1_goes_on_over_ranks(name, tmp_path, exact):
    path = tmp_path / f"{name}.ckpt"
    kept = KEPT / path.name
    shutil.copytree(kept, path) if kept.is_dir() else shutil.copy(kept, path)
    command = [sys.executable, str(KEPT / "projects.py"), name, str(tmp_path), str(path)]
    seeds = ("LT_", "PL_")  # seed_everything of tests before this one in its process
    environment = {name: value for name, value in os.environ.items() if not name.startswith(seeds)}
    environment["OMP_NUM_THREADS"] = "1"
    done = warm.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    left = torch.load(tmp_path / f"{name}.end.pt", weights_only=True)
    assert_ends_as_0_1_did(name, left["weights"], left["step"], exact)
