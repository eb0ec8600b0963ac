"""The kit's part on each rank: one launch runs all checks, one after another, and ends in a failure on purpose."""

import faulthandler
import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lt_core import plugins
from lt_core.launcher import RunResult
from lt_core.strategy import Strategy
from lt_testing.launched import DeliberateError
from lt_testing.strategy.bench import Bench, SkippedError
from lt_testing.strategy.checks import load_checks

__all__ = ["DeliberateError", "made", "run_again", "run_all", "run_left"]

PATIENCE = float(os.environ.get("LT_KIT_PATIENCE", "300"))
"""Seconds for one check; a rank that hangs ends, and the job with it."""


GRACE = 2.0
"""Seconds in which a rank may end a check that another one has failed; after them it waits for that rank."""


def made(strategy: str | Callable[[], Strategy]) -> Strategy:
    """Return a new strategy by its name or factory."""
    found: Strategy = (plugins.load("strategies", strategy) if isinstance(strategy, str) else strategy)()
    return found


def run_all(
    strategy: str | Callable[[], Strategy], folder: Path, tolerance: float, done: int, outer: Strategy
) -> RunResult:
    """Run every check on this rank; leave ``rank_<n>.jsonl``, a line for each.

    Args:
        strategy: a name, or a factory without arguments.
        folder: what all ranks see.
        tolerance: how far numbers may be from plain torch's on the CPU.
        done: checks that an earlier launch has done.
        outer: the launched strategy.
    """
    outer.open()
    error: BaseException | None = None
    try:
        _run_checks(strategy, folder, tolerance, done, outer)
        if outer.rank == outer.world_size - 1:
            raise DeliberateError(f"rank {outer.rank} raises at the end, on purpose")
        outer.barrier("that the last rank never reaches")
        return RunResult()
    except BaseException as caught:
        error = caught
        raise
    finally:
        faulthandler.cancel_dump_traceback_later()
        outer.close(error)


def run_again(outer: Strategy) -> RunResult:
    """Be a second launch: return who took part."""
    outer.open()
    try:
        return RunResult(outputs=outer.gather_objects([outer.rank, os.getpid()]), status=f"from rank {outer.rank}")
    finally:
        outer.close()


def run_left(folder: Path, outer: Strategy) -> RunResult:
    """Have the last rank close with an error and stay: the others hear of it from the strategy, not from a launcher.

    Each of them leaves its notes in ``heard_<rank>``.
    """
    outer.open()
    others = outer.world_size - 1
    error: BaseException | None = None
    try:
        outer.barrier("that all ranks reach, so that none is still opening")
        if outer.rank == others:
            _close_and_stay(outer, folder, others)
            return RunResult()
        outer.barrier("that the last rank never reaches")
    except Exception as caught:
        error = caught
        if not (folder / "left").exists():
            (folder / f"heard_{outer.rank}").write_text(repr(error))
    outer.close(error)
    return RunResult()


def _close_and_stay(outer: Strategy, folder: Path, others: int) -> None:
    outer.close(DeliberateError(f"rank {outer.rank} closes with an error, on purpose"))
    deadline = time.monotonic() + PATIENCE / 5
    while len(list(folder.glob("heard_*"))) < others and time.monotonic() < deadline:
        time.sleep(0.01)
    (folder / "left").touch()


def _run_checks(strategy: Any, folder: Path, tolerance: float, done: int, outer: Strategy) -> None:
    rank, world_size = outer.rank, outer.world_size
    for name, check in [*load_checks().items()][done:]:
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=2)
        place = folder / "files" / name
        place.mkdir(parents=True, exist_ok=True)
        why_not = check.skip(outer.capabilities, world_size)
        status, text = "skipped", why_not or ""
        if why_not is None:
            bench = Bench(lambda: made(strategy), outer.environment, outer.placement, place, tolerance=tolerance)
            over = threading.Event()
            threading.Thread(target=_watch, args=(folder, rank, name, over), daemon=True).start()
            status, text = _outcome(check.run, bench)
            over.set()
        _note(folder, rank, name, status, text)
        _wait_for_others(folder, name, world_size)
        if rank == 0:
            shutil.rmtree(place, ignore_errors=True)


def _watch(folder: Path, rank: int, name: str, over: threading.Event) -> None:
    """End this process where it waits for a rank that has failed the check; a launch for the other checks follows."""
    main, failed = threading.main_thread().ident or 0, json.dumps({"name": name, "status": "failed"})[:-1]
    while not over.wait(0.1):
        for path in folder.glob("rank_*.jsonl"):
            if failed in path.read_text() and not over.wait(GRACE):
                stack = "".join(traceback.format_stack(sys._current_frames()[main]))
                _note(folder, rank, name, "failed", f"waits for {path.stem}, which has failed:\n{stack}")
                os._exit(1)


def _note(folder: Path, rank: int, name: str, status: str, text: str) -> None:
    with (folder / f"rank_{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"name": name, "status": status, "text": text}) + "\n")


def _outcome(run: Callable[[Bench], None], bench: Bench) -> tuple[str, str]:
    try:
        run(bench)
    except SkippedError as skipped:
        return "skipped", str(skipped)
    except Exception as error:
        return "failed", "".join(traceback.format_exception(error))
    return "passed", ""


def _wait_for_others(folder: Path, name: str, world_size: int) -> None:
    """Wait by files, since the strategy's own means are what is being tried."""
    waiting = set(range(world_size))
    while waiting:
        for rank in sorted(waiting):
            path = folder / f"rank_{rank}.jsonl"
            if path.exists() and json.dumps(name) in path.read_text():
                waiting.discard(rank)
        if waiting:
            time.sleep(0.005)
