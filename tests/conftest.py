"""What all tests share: tests whose hardware is missing are skipped with one clear reason."""

from functools import cache
from importlib.util import find_spec

import pytest


@cache
def missing(mark: str) -> str | None:
    """Return why a test with this mark cannot run here, or None when it can."""
    if mark == "xla" and find_spec("torch_xla") is None:
        return "needs torch-xla: uv run nox -s tests-xla"
    if mark == "cuda":
        import torch

        if not torch.cuda.is_available():
            return "needs a CUDA device"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in ("cuda", "xla"):
        if item.get_closest_marker(mark) and (reason := missing(mark)):
            pytest.skip(reason)
