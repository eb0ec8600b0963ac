"""A device that another package brings has all that ours have: lt asks the accelerator, and torch's registries."""

import sys
from pathlib import Path

import pytest
import torch.utils.backend_registration
from tests import processes
from tests.patience import PATIENCE

JOB = Path(__file__).parent / "jobs" / "lumen.py"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What a script prints that registers a device with torch and trains on it."""
    if not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("needs a torch in which a device can be written in Python")
    command = [sys.executable, str(JOB), str(tmp_path_factory.mktemp("lumen"))]
    done = processes.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_its_batches_are_copied_beside_the_step(lines):
    assert "devices ['lumen'] copies 1" in lines


def test_its_generator_is_saved_and_a_resume_goes_on_as_if_never_stopped(lines):
    assert "generator saved True" in lines
    assert "resumed equal True" in lines


def test_its_steps_can_be_captured_and_torch_does_not_complain_of_the_warm_up(lines):
    assert "graphs ['graphs', 'warm up', 'warm up']" in lines


def test_ranks_on_it_without_collectives_are_an_error_that_says_what_is_missing(lines):
    assert "no backend is registered with torch for this kind of device" in lines[-1]
    assert "[LT348]" in lines[-1]
