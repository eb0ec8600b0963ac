"""A signal of a whole group (``timeout``, a scheduler, Ctrl-C) reaches loader workers too: the run stops and saves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tests import processes
from tests.patience import PATIENCE

pytest.importorskip("lt_data")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its workers learn who sent a signal")

JOB = Path(__file__).parent / "jobs" / "group_signalled.py"


def start(folder, *arguments):
    command = [sys.executable, str(JOB), str(folder), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return processes.Popen(command, start_new_session=True, text=True, **pipes)


def signalled(folder, number, *arguments):
    """Return exit status and output of a job whose group is sent ``number`` once its loader hangs."""
    job, end = start(folder, *arguments), time.monotonic() + PATIENCE
    try:
        done = folder / ("step 3" if "validation" in arguments else "step 4")
        while not ((folder / "ready").exists() and done.exists()):
            assert job.poll() is None, job.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(job.pid, number)
        said = job.communicate(timeout=PATIENCE)[0]
        while left := members(job.pid):  # a forkserver, multiprocessing's tracker: they end with their parent
            assert time.monotonic() < end, left
            time.sleep(0.02)
    finally:
        for pid in members(job.pid):
            os.kill(pid, signal.SIGKILL)
        job.wait()
    return job.returncode, said


def members(group):
    """Return the processes of a group that run."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, number = place.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(number) == group and state != "Z":
            found.append(int(place.parent.name))
    return found


def saved_step(folder):
    return torch.load(folder / "checkpoints" / "interrupted.ckpt", weights_only=True)["global_step"]


HUNG = [
    *((signal.SIGTERM, 0, "training", "fork"), (signal.SIGTERM, 2, "training", "fork")),
    *((signal.SIGINT, 2, "training", "fork"), (signal.SIGUSR1, 1, "training", "fork")),
    *((signal.SIGHUP, 1, "training", "spawn"), (signal.SIGTERM, 1, "training", "spawn")),
    (signal.SIGTERM, 1, "training", "forkserver"),
]


@pytest.mark.parametrize(("number", "workers", "hang", "method"), HUNG)
def test_a_loader_that_hangs_ends_with_a_checkpoint_of_the_last_boundary(tmp_path, number, workers, hang, method):
    status, said = signalled(tmp_path, number, workers, hang, method)
    assert status == 128 + number, said
    assert saved_step(tmp_path) == 4
    assert "LT412" not in said
    assert said.count("Ctrl-C:") == (number == signal.SIGINT)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_was_stopped_while_its_loader_hung_ends_as_one_that_was_not(tmp_path, workers):
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "resumed").touch()
    status, said = signalled(tmp_path, signal.SIGTERM, workers, "training", "fork")
    assert status == 143, said
    (tmp_path / "resumed").touch()
    for folder in (tmp_path, tmp_path / "whole"):
        job = start(folder, workers, "training", "fork")
        said = job.communicate(timeout=PATIENCE)[0]
        assert job.returncode == 0, said
    ends = [torch.load(folder / "end.pt", weights_only=True) for folder in (tmp_path, tmp_path / "whole")]
    for name, value in ends[0].items():
        assert torch.equal(value, ends[1][name])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_validation_that_hangs_ends_too_and_is_repeated_by_a_resume(tmp_path, workers):
    status, said = signalled(tmp_path, signal.SIGTERM, workers, "validation", "fork")
    assert status == 143, said
    assert saved_step(tmp_path) == 3


def test_a_batch_that_comes_late_is_waited_for_by_the_worker(tmp_path):
    status, said = signalled(tmp_path, signal.SIGTERM, 1, "late", "fork")
    assert status == 143, said
    assert saved_step(tmp_path) >= 4


@pytest.mark.parametrize(
    ("hang", "method"), [("child", "fork"), ("shell", "fork"), ("fork", "fork"), ("child", "spawn")]
)
def test_processes_that_a_worker_has_started_end_by_the_signal(tmp_path, hang, method):
    status, said = signalled(tmp_path, signal.SIGTERM, 1, hang, method)
    assert status == 143, said
    assert (tmp_path / "child").read_text() == "-15"


def test_a_handler_of_the_users_worker_init_fn_is_called_and_the_dead_worker_is_the_stop(tmp_path):
    status, said = signalled(tmp_path, signal.SIGTERM, 1, "handler", "fork")
    assert status == 143, said
    assert (tmp_path / "child").read_text() == "-15"
    assert saved_step(tmp_path) == 4
