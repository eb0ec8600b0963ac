"""Signals: the first one ends a run at the next batch with a checkpoint, and the script with the status of shells."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from tests import processes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, so that torch is imported once")

STATUS = {"SIGTERM": 143, "SIGUSR1": 138, "SIGHUP": 129, "SIGINT": 130}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("signals")


@pytest.fixture(scope="module")
def report(root):
    """What runs left that were sent a signal; they are made once for all tests."""
    job = Path(__file__).parent / "jobs" / "signalled.py"
    done = processes.run([sys.executable, str(job), str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", STATUS)
def test_a_signal_ends_the_script_with_its_status_and_a_checkpoint(report, name):
    status, left, _, _ = report[name]
    assert status == STATUS[name]
    assert left == ["epoch=0-step=8.ckpt", "interrupted.ckpt"]


@pytest.mark.parametrize("name", STATUS)
def test_the_next_start_ends_as_if_there_had_been_no_signal(report, root, name):
    _, _, again, kept = report[name]
    assert again == 0
    assert kept == ["epoch=2-step=24.ckpt"]
    whole, resumed = (torch.load(root / folder / "end.pt", weights_only=True) for folder in ("whole", name))
    for key, value in whole.items():
        assert torch.equal(value, resumed[key]), key


def test_a_second_ctrl_c_stops_at_once(report):
    assert report["twice"] == 99


def test_the_first_ctrl_c_says_within_the_step_what_will_happen_once(report):
    said = "lt: Ctrl-C: fit ends after this batch. A checkpoint is saved there. Press Ctrl-C again to stop now.\n"
    assert report["says SIGINT"] == [said, said]
    assert report["no files"][0] == said.replace(" A checkpoint is saved there.", "")
    assert report["sanity"][1] == said.replace(" A checkpoint is saved there.", "")


def test_other_signals_come_from_programs_and_say_nothing(report):
    assert report["says SIGTERM"] == ["", ""]


def test_on_signal_return_hands_the_script_back_and_the_fit_goes_on(report):
    assert report["return"] == 0


USERS_TESTS = """
import signal
from pathlib import Path

import torch
from lt import LightningModule, Trainer
from lt.callbacks import ModelCheckpoint

here = Path(__file__).parent


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        signal.raise_signal(signal.SIGTERM)
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def test_that_trains():
    Trainer(accelerator="cpu", logger=False, callbacks=ModelCheckpoint(here)).fit(Net(), [torch.ones(2, 2)] * 9)
    (here / "went on").touch()


def test_that_comes_next():
    (here / "came next").touch()
"""


def test_a_signal_in_a_fit_of_a_users_test_ends_pytest_when_the_files_are_saved(tmp_path):
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = processes.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".ckpt") == ["interrupted.ckpt"]
    assert not (tmp_path / "went on").exists()
    assert not (tmp_path / "came next").exists()
    assert "SIGTERM. A test that sends it itself sets trainer.on_signal = 'return'." in done.stdout
