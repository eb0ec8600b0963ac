"""What is done once for a source of data: ``prepare_data`` on one process while the others wait, ``setup`` by stage."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from lt_core.data import DataSource
from lt_core.errors import RankError
from lt_core.overrides import is_overridden
from lt_core.ranks import Ranks
from lt_core.states import Stage

__all__ = ["Done", "prepare", "setup_once", "teardown"]

_ALL_STAGES = "*"
"""Stands for every stage: ``setup()`` without one."""

_STAGES = frozenset(stage.run for stage in Stage)

_POLL_SECONDS = 0.02, 1.0
"""Shortest and longest pause between two looks at whether another process has finished preparing."""

_calls = itertools.count()

Call = Callable[[], None] | None


class Done:
    """What was done already for a source of data, by a run or by hand: ``"prepare_data"``, and ``setup`` by stage.

    It is kept in the source's ``__dict__``, so that it travels with copies and pickles, as the data does.

    Args:
        source: a datamodule or module.
    """

    def __init__(self, source: object) -> None:
        self._marks: set[str] = source.__dict__.setdefault("_lt_done", set())

    def __contains__(self, what: str) -> bool:
        """Return whether ``what`` was done; a ``setup`` without a stage did all stages."""
        return what in self._marks or (what != "prepare_data" and _ALL_STAGES in self._marks)

    def add(self, what: str) -> None:
        """Note that ``what`` was done."""
        self._marks.add(what)

    def discard(self, what: str) -> None:
        """Note that ``what`` has to be done again; after a ``setup`` of all stages, the other stages are still done."""
        if what == _ALL_STAGES or (what in _STAGES and _ALL_STAGES in self._marks):
            self._marks -= _STAGES | {_ALL_STAGES}
            self._marks |= _STAGES if what != _ALL_STAGES else set()
        self._marks.discard(what)

    @staticmethod
    def stage_of(setup: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return which stage a call ``setup(*args, **kwargs)`` is for; ``"*"`` where it names none.

        A ``setup(self)`` without a parameter is for all stages, and so is ``stage=None``, as in ``datamodule.setup()``.
        """
        first = next(iter(inspect.signature(setup).parameters.values()), None)
        if first is None:
            return _ALL_STAGES
        default = None if first.default is inspect.Parameter.empty else first.default
        stage = args[0] if args else kwargs.get(first.name, default)
        return _ALL_STAGES if stage is None else str(getattr(stage, "value", stage))


def setup_once(source: DataSource, stage: str, call: Call = None) -> None:
    """Call ``source.setup(stage)`` unless it was called for this stage before, by hand or for an earlier run.

    A second call would split the data anew. :func:`teardown` makes it due again. ``call`` takes the method's place.
    """
    call = call or (lambda: source.setup(stage))
    if getattr(source.setup, "keeps_count", False) is True:  # a datamodule's skips its second call by itself
        call()
    else:
        _once(source, Done.stage_of(source.setup, (stage,), {}), call)


def teardown(source: DataSource, stage: str, call: Call = None) -> None:
    """Call ``source.teardown(stage)``, or ``call``; where the user defines it, ``setup`` of that stage is due again."""
    (call or (lambda: source.teardown(stage)))()
    if is_overridden(source, "teardown", DataSource):
        Done(source).discard(stage)


def prepare(source: DataSource, ranks: Ranks, per_node: bool | None = None, call: Call = None) -> None:
    """Have ``prepare_data`` run on one process per node, or on one of the whole job, while the others wait.

    It runs once: not again where this process did it before, by hand or for an earlier run. The wait has no timeout, as
    a download may take hours. When ``prepare_data`` raises, every rank raises the same error without waiting further.
    Called on every rank, after ``strategy.open()``.

    Args:
        source: a datamodule or module.
        ranks: says which process this is, and carries the messages.
        per_node: whether each node prepares its own data; default: ``source.prepare_data_per_node``.
        call: what to call in place of ``source.prepare_data``.

    Raises:
        Exception: what ``prepare_data`` raised, on this rank or another.
    """
    if not is_overridden(source, "prepare_data", DataSource):
        return
    if ranks.world_size == 1:
        _once(source, "prepare_data", call or source.prepare_data)
        return
    each_node = source.prepare_data_per_node if per_node is None else per_node
    leads, outcome = (ranks.local_rank if each_node else ranks.rank) == 0, ""
    failure: BaseException | None = None
    try:
        if leads:
            _once(source, "prepare_data", call or source.prepare_data)
    except BaseException as error:
        outcome, failure = _described(error, ranks.rank), error
    nodes = ranks.num_nodes if each_node else 1
    failed = _share(ranks, outcome, leads=leads, leaders=nodes)
    if failure is not None:
        raise failure
    if failed:
        raise _error_of_another_rank(json.loads(failed))


def _once(source: DataSource, what: str, call: Callable[[], None]) -> None:
    done = Done(source)
    if what not in done:
        call()
        done.add(what)


def _share(ranks: Ranks, outcome: str, *, leads: bool, leaders: int) -> str:
    """Post this rank's outcome where it leads, wait for those of the leaders; return the first failure, or ""."""
    if type(ranks).peek is Ranks.peek:  # a strategy without a side channel: a collective, with its timeout
        return next((failure for failure in ranks.gather_objects(outcome) if failure), "")
    key = f"prepare/{next(_calls)}"
    if leads:
        ranks.post(f"{key}/{ranks.node_rank if leaders > 1 else 0}", outcome or "ok")
    return outcome or _wait(ranks, key, leaders)


def _wait(ranks: Ranks, key: str, leaders: int) -> str:
    waiting = set(range(leaders))
    pause, longest = _POLL_SECONDS
    while True:
        for leader in sorted(waiting):
            outcome = ranks.peek(f"{key}/{leader}")
            if outcome is not None and outcome != "ok":
                return outcome
            if outcome is not None:
                waiting.remove(leader)
        if not waiting:
            return ""
        time.sleep(pause)
        pause = min(2 * pause, longest)


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
    kind = getattr(sys.modules.get(given["module"]), given["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return where
    try:
        error = kind(given["message"])
    except TypeError:  # its constructor wants more than a message
        return where
    error.__cause__ = where
    return error
