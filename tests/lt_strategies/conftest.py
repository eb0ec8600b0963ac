"""Ranks as forked processes of the test: one launch for a whole set of facts, which the tests then look at."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

from lt_core.launcher import RunResult
from lt_core.strategy import Placement, Strategy
from lt_strategies import DDP, ForkLauncher

JOBS = Path(__file__).parent / "jobs"


def on_ranks(fn: Callable[[Any], Any], world_size: int, strategy: Strategy | None = None) -> list[Any]:
    """Run ``fn(strategy)`` on forked ranks; return what each returned, in rank order."""
    strategy = strategy or DDP(timeout=PATIENCE)
    strategy.place(Placement(devices=tuple(range(world_size)), launcher=ForkLauncher()))

    def run() -> RunResult:
        strategy.open()
        error = None
        try:
            return RunResult(outputs=strategy.gather_objects(fn(strategy)))
        except BaseException as caught:
            error = caught
            raise
        finally:
            strategy.close(error)

    return strategy.launch(run).outputs


@pytest.fixture(scope="session")
def ranks() -> Callable[..., list[Any]]:
    torch.optim.SGD([torch.zeros(1)])  # imports what an optimizer needs, once for all forks
    return on_ranks


@pytest.fixture(params=[warm.run])
def job(request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script of ``jobs/``; environment variables as keywords. In a new Python if ``subprocess.run`` is given."""

    def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "LT_"))}
        return request.param(
            [sys.executable, "-W", "error", str(JOBS / name), *arguments],
            env={**kept, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run
