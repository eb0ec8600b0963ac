"""``prepare_data`` on one process of each node, or of the whole job, while the others wait."""

from __future__ import annotations

import itertools
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from lt_core.errors import RankError
from lt_core.ranks import Ranks

__all__ = ["prepare"]

_POLL_SECONDS = 0.02, 1.0
"""Shortest and longest pause between two looks at whether another process has finished preparing."""

_calls = itertools.count()


def prepare(call: Callable[[], None], ranks: Ranks, each_node: bool) -> None:
    """Make ``call`` on one rank while the others wait; called on every rank.

    The wait has no timeout, as a download may take hours. When ``call`` raises, every rank raises the same error
    without waiting further.

    Args:
        call: prepares the data.
        ranks: says which process this is, and carries the messages.
        each_node: whether one rank of each node makes the call.

    Raises:
        Exception: raised by ``call``, on this rank or another.
    """
    leads, outcome = (ranks.local_rank if each_node else ranks.rank) == 0, ""
    failure: BaseException | None = None
    try:
        if leads:
            call()
    except BaseException as error:
        outcome, failure = _described(error, ranks.rank), error
    failed = _share(ranks, outcome, leads=leads, leaders=ranks.num_nodes if each_node else 1)
    if failure is not None:
        raise failure
    if failed:
        raise _error_of_another_rank(json.loads(failed))


def _share(ranks: Ranks, outcome: str, *, leads: bool, leaders: int) -> str:
    """Post this rank's outcome where it leads, wait for the leaders' outcomes; return the first failure, or ""."""
    if type(ranks).peek is Ranks.peek:  # a strategy without a side channel: a collective, with its timeout
        return next((failure for failure in ranks.gather_objects(outcome) if failure), "")
    key = f"prepare/{next(_calls)}"
    if leads:
        ranks.post(f"{key}/{ranks.node_rank if leaders > 1 else 0}", outcome or "ok")
    waiting = [] if outcome else list(range(leaders))
    pause, longest = _POLL_SECONDS
    while waiting:
        said = {leader: ranks.peek(f"{key}/{leader}") for leader in waiting}
        if failed := next((text for text in said.values() if text not in (None, "ok")), None):
            return failed
        if waiting := [leader for leader in waiting if said[leader] is None]:
            time.sleep(pause)
            pause = min(2 * pause, longest)
    return outcome


def _described(error: BaseException, rank: int) -> str:
    kind = type(error)
    return json.dumps(
        {
            "rank": rank,
            "module": kind.__module__,
            "kind": kind.__qualname__,
            "message": str(error),
            "traceback": traceback.format_exc(),
        }
    )


def _error_of_another_rank(given: dict[str, Any]) -> BaseException:
    """Return the error of another rank, of the same class where that can be made here; its traceback is the cause."""
    where = RankError(f"prepare_data raised on rank {given['rank']}:\n{given['traceback']}", code="LT431")
    # imported modules only: a message of another rank imports nothing here
    kind = getattr(sys.modules.get(given["module"]), given["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return where
    try:
        error = kind(given["message"])
    except TypeError:  # its constructor wants more than a message
        return where
    error.__cause__ = where
    return error
