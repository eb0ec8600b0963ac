"""Runs killed by SIGKILL at random moments, and started again: they end as the run that nobody killed.

``LT_KILLS`` says how often each scenario is killed (``nox -s faults``); the small number is CI's.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, so that killing many is quick"),
]

KILLS = int(os.environ.get("LT_KILLS", "6"))
MOST_KILLS_OF_ONE_RUN = 3


def start(folder: Path, name: str, before: Callable[[], object] = lambda: None) -> int:
    """Train in a child of this process, which does ``before`` first; return its number."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # a group of its own, so that its loader workers die with it
        sys.stdout = sys.stderr = (folder / "output.txt").open("a")
        status = 1
        try:
            from tests.faults.scenarios import train

            before()
            train(folder, name)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    with contextlib.suppress(OSError):  # whoever of the two comes first
        os.setpgid(child, child)
    return child


def wait(child: int, folder: Path) -> None:
    """Wait until a child ends by itself."""
    _, status = os.waitpid(child, 0)
    assert status == 0, (folder / "output.txt").read_text()[-3000:]


def kill(child: int, seconds: float, chance: random.Random) -> bool:
    """Kill a run after ``seconds``, or one of its ranks, which ends it; return whether it was still running."""
    time.sleep(seconds)
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        assert status == 0
        return False
    ranks = [int(name) for name in Path(f"/proc/{child}/task/{child}/children").read_text().split()]
    if len(ranks) == 2 and chance.random() < 0.5:
        os.kill(chance.choice(ranks), signal.SIGKILL)
        return os.waitpid(child, 0)[1] != 0  # 0: the rank had ended, all but its process
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def same(one: Any, other: Any, where: str = "") -> None:
    """Fail unless both are the same, tensors bit for bit."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key, value in one.items():
            same(value, other[key], f"{where}/{key}")
    else:
        assert one == other, where


def scenarios() -> list[str]:
    from tests.faults.scenarios import SCENARIOS

    return list(SCENARIOS)


@pytest.mark.parametrize("name", scenarios())
def test_runs_killed_at_random_moments_end_as_the_one_that_was_not(name: str, tmp_path: Path) -> None:
    from tests.faults.scenarios import left_behind

    torch.optim.Adam([torch.zeros(1)])  # imports what an optimizer needs, once for all children
    whole = tmp_path / "whole"
    whole.mkdir()
    began = time.monotonic()
    wait(start(whole, name), whole)
    length = time.monotonic() - began
    expected = left_behind(whole)
    chance = random.Random(len(name))
    killed, number = 0, 0
    while killed < KILLS:
        folder = tmp_path / f"run_{number}"
        folder.mkdir()
        number += 1
        of_this = 0
        while of_this < MOST_KILLS_OF_ONE_RUN and kill(start(folder, name), chance.uniform(0.05, 1.0) * length, chance):
            of_this += 1
        if of_this == MOST_KILLS_OF_ONE_RUN or not (folder / "end.pt").exists():
            wait(start(folder, name), folder)
        same(expected, left_behind(folder), f"{name}, run {number}, killed {of_this} times")
        killed += of_this
    print(f"{name}: {killed} kills of {number} runs, all ended the same")
