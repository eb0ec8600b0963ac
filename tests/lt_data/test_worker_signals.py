"""Whose SIGTERM ends a loader's worker, and how its death is named."""

import _thread
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from tests import processes
from tests.patience import PATIENCE
from torch.utils.data import DataLoader, Dataset

from lt_core.data import make_feed
from lt_core.errors import DataError

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells a worker who sent a signal"),
    # torch's handler of SIGCHLD raises at any bytecode, of a finalizer too, where Python prints the error and goes on
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Numbers(Dataset):
    def __init__(self, act=None):
        self.act = act

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5 and self.act is not None:
            self.act()
        return torch.full((4096,), index)


@pytest.fixture(params=["fit", "validate"])
def feed(request):
    made = make_feed(DataLoader(Numbers(), 1, num_workers=1), stage=request.param)
    yield made
    made.close()


def only_worker():
    (worker,) = multiprocessing.active_children()
    return worker


def kill_from_elsewhere(pid):
    processes.run(["/bin/kill", "-TERM", str(pid)], check=True)


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN, lambda number, frame: None], ids=["none", "ignored", "own"])
def handler(request):
    before = signal.signal(signal.SIGTERM, request.param)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_worker_goes_on_when_another_process_sends_it_sigterm(handler, feed):
    batches = iter(feed)
    next(batches)
    kill_from_elsewhere(only_worker().pid)
    assert len(list(batches)) == 7


@pytest.mark.parametrize("by", ["terminate", "kill"])
def test_a_worker_ends_when_its_parent_sends_it_sigterm(feed, by):
    batches = iter(feed)
    next(batches)
    worker = only_worker()
    if by == "terminate":
        worker.terminate()
    else:
        os.kill(worker.pid, signal.SIGTERM)
    worker.join(PATIENCE)
    assert worker.exitcode == 0


def test_a_fork_of_the_process_that_reads_leaves_its_workers_alone(feed):
    batches = iter(feed)
    next(batches)
    child = os.fork()
    if child == 0:
        feed.close()
        batches.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(batches)) == 7


def leave(status):
    """End as a process does: connections first."""
    time.sleep(0.1)  # what it has sent is on its way
    os.closerange(3, 256)
    time.sleep(0.2)
    os._exit(status)


@pytest.mark.parametrize("act", ["os._exit(0)", "os._exit(3)", "SIGKILL"])
@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_a_worker_that_is_gone_is_named_whatever_broke_first(stage, act):
    ends = {
        "os._exit(0)": lambda: leave(0),
        "os._exit(3)": lambda: leave(3),
        "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    }
    made = make_feed(DataLoader(Numbers(ends[act]), 1, num_workers=1, prefetch_factor=4), stage=stage)
    batches = iter(made)
    assert len([next(batches), next(batches)]) == 2  # the worker begins with the sixth, and has sent three more
    if act != "SIGKILL":
        time.sleep(0.2)
    with pytest.raises(DataError, match="LT412"):
        list(batches)
    made.close()


@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_a_worker_that_dies_during_a_step_is_told_after_it(stage):
    # at the sixth; what it has sent is on its way
    dies = Numbers(lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGKILL)))
    made = make_feed(DataLoader(dies, 1, num_workers=1, prefetch_factor=8), stage=stage)
    batches = iter(made)
    assert next(batches) is not None
    end = time.monotonic() + 0.6
    while time.monotonic() < end:  # where torch's handler would raise
        pass
    with pytest.raises(DataError, match="LT412"):
        list(batches)
    made.close()


@pytest.mark.parametrize("start", ["threading._start_new_thread", "lt_data.resume.workers.start_new_thread"])
def test_a_worker_that_ends_while_the_reader_closes_leaves_no_error_of_a_thread(monkeypatch, start):
    threads = []

    def interrupted(function, args):
        threads.append(_thread.start_new_thread(function, args))
        raise RuntimeError("DataLoader worker exited unexpectedly")  # torch's handler of SIGCHLD, at the next bytecode

    printed = []
    made = make_feed(DataLoader(Numbers(), 1, num_workers=1), stage="fit")
    batches = iter(made)
    next(batches)
    monkeypatch.setattr("sys.unraisablehook", printed.append)
    monkeypatch.setattr(start, interrupted)
    made.close()
    batches.close()
    monkeypatch.undo()
    assert not multiprocessing.active_children()
    assert not printed


PARENT = """
import multiprocessing, os, signal, sys
from tests.lt_data.test_worker_signals import Numbers
from torch.utils.data import DataLoader
from lt_core.data import make_feed

batches = iter(make_feed(DataLoader(Numbers(), 1, num_workers=1), stage="fit"))
next(batches)
print(multiprocessing.active_children()[0].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_whose_parent_is_gone_ends():
    root = Path(__file__).parents[2]
    done = processes.run([sys.executable, "-c", PARENT], capture_output=True, text=True, cwd=root, check=False)
    worker, end = Path("/proc", done.stdout.strip()), time.monotonic() + PATIENCE
    while worker.exists() and ") Z " not in (worker / "stat").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
