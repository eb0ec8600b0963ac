"""What all tests share: one torch thread per process, little garbage, clear reasons where hardware is missing."""

import gc
import os
import sys
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from tests.processes import use_huge_pages


@cache
def missing(mark: str) -> str | None:
    """Return why a test with this mark cannot run here, or None when it can."""
    if mark == "xla" and find_spec("torch_xla") is None:
        return "needs torch-xla: uv run nox -s tests-xla"
    if mark == "cuda":
        import torch

        if not torch.cuda.is_available():
            return "needs a CUDA device"
    if mark == "mps":
        import torch

        if not torch.backends.mps.is_available():
            return "needs a GPU of Apple's"
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Give torch one thread: pools of several processes wait for one another's cores (57 s became 0.25 s in a test).

    By a call and not by OMP_NUM_THREADS, which processes that a test starts would inherit. The controller of xdist runs
    no test, and needs no torch.
    """
    if "PYTEST_XDIST_WORKER" in os.environ or not config.getoption("numprocesses", None):
        import torch

        torch.set_num_threads(1)
        if not find_spec("torch_xla"):  # whose devices autograd must find when it starts its threads
            # by now: where DTensor was used before, it finds a GPU, and no fork can train
            torch.zeros((), requires_grad=True).backward()
        gc.disable()  # until the tests are collected: they stay, and so does what their modules import
        # at each seed torch formats the stack for each device that was not opened, and pytest's stack is deep:
        # an eighth of the time of small fits
        for device in (torch.cuda, torch.xpu, torch.mtia):
            device.traceback = SimpleNamespace(format_stack=list)


def pytest_collection_finish() -> None:
    """Leave what was collected, a million objects, out of each collection of garbage, and of what a fork copies."""
    gc.freeze()
    gc.enable()
    if hasattr(os, "fork"):
        os.register_at_fork(before=use_huge_pages)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in ("cuda", "mps", "xla"):
        if item.get_closest_marker(mark) and (reason := missing(mark)):
            pytest.skip(reason)


@pytest.hookimpl(trylast=True)  # fixtures of the file may talk
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave the process group of a file's fits: it outlives them, and the next file's Trainers would be in it."""
    group = sys.modules.get("lt_strategies.group")
    if nextitem is None or nextitem.path != item.path:
        if group is not None:
            group.leave_group()
        if "torch._dynamo" in sys.modules:  # the first optimizer imports it: 100,000 objects that stay
            keep_out_of_collections()


@cache
def keep_out_of_collections() -> None:
    """Leave what is there now, once, out of each collection of garbage: 65 ms of ``gc.collect()`` become 5."""
    gc.collect()
    gc.freeze()
