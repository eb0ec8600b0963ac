"""A run that dies at any file operation of its saves leaves complete checkpoints only, and its resume is exact.

``LT_KILLS`` says at how many of the operations each file system's runs die (``nox -s faults``: all of them where it is
larger than their number); the small number is CI's. The second file system is another one than that of the folder for
temporary files, so that a rename from there would fail.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.faults.test_kills import KILLS, same, start, wait

from lt_core import CheckpointIO

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, so that letting many die is quick"),
]

NAME = "dropout, shuffle, scheduler, accumulation"
OPERATIONS = ("open", "write", "fsync", "close", "replace", "rename", "link", "symlink", "unlink", "mkdir", "scandir")
MEMORY = Path("/dev/shm")
DIED = 77


def counting(stop_at: int | None, count_in: Path | None) -> None:
    """Have this process end at file operation ``stop_at``, in the middle of whatever it does."""
    numbers = itertools.count()

    def wrapped(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            number = next(numbers)
            if number == stop_at:
                os._exit(DIED)
            if count_in is not None:
                count_in.write_text(str(number + 1))
            return original(*args, **kwargs)

        return call

    for name in OPERATIONS:
        setattr(os, name, wrapped(getattr(os, name)))


@pytest.fixture(params=["the folder's", "another"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on the file system of temporary files, or on another one."""
    if request.param == "the folder's":
        yield tmp_path
        return
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip(f"needs {MEMORY} as a second file system")
    with tempfile.TemporaryDirectory(dir=MEMORY) as other:
        yield Path(other)


def test_a_run_that_dies_at_any_file_operation_leaves_complete_files_and_resumes_exactly(folder: Path) -> None:
    from tests.faults.scenarios import left_behind

    torch.optim.Adam([torch.zeros(1)])  # imports what an optimizer needs, once for all children
    whole = folder / "whole"
    whole.mkdir()
    wait(start(whole, NAME, lambda: counting(None, folder / "operations")), whole)
    expected, total = left_behind(whole), int((folder / "operations").read_text())
    points = range(total) if total <= KILLS else [int((i + 0.5) * total / KILLS) for i in range(KILLS)]
    for point in points:
        run = folder / f"dies_at_{point}"
        run.mkdir()
        child = start(run, NAME, lambda point=point: counting(point, None))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, DIED)
        for path in run.glob("*/*.ckpt"):
            CheckpointIO().verify(path)
        wait(start(run, NAME), run)
        same(expected, left_behind(run), f"died at file operation {point} of {total}")
    print(f"{len(points)} of {total} file operations, all ended the same")
