"""What happens once: ``prepare_data`` on one process while the others wait, ``setup`` once for each stage."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from lt_core.errors import RankError

if TYPE_CHECKING:
    from lt_core.strategy import Strategy

__all__ = ["prepare", "prepare_once_per_run", "setup_once", "stage_of", "teardown"]

_DONE = "_lt_done"
"""Key in a source's ``__dict__``: what was done already. It travels with copies and pickles, as the data does."""

ALL_STAGES = "*"
"""Stands for every stage: ``setup()`` without one."""

STAGES = frozenset({"fit", "validate", "test", "predict"})

_POLL_SECONDS = 0.02, 1.0
"""Shortest and longest pause between two looks at whether another process has finished preparing."""

_calls = itertools.count()


class _Source(Protocol):
    prepare_data_per_node: bool

    def prepare_data(self) -> None: ...

    def setup(self, stage: str) -> None: ...

    def teardown(self, stage: str) -> None: ...


def prepare_once_per_run(source: _Source, call: Callable[[], None] | None = None) -> None:
    """Call ``source.prepare_data()`` unless this process did so before, by hand or for an earlier run.

    Args:
        source: a datamodule or module.
        call: what to call in place of the method itself.
    """
    _once(source, "prepare_data", call or source.prepare_data)


def setup_once(source: _Source, stage: str, call: Callable[[], None] | None = None) -> None:
    """Call ``source.setup(stage)`` unless it was called for this stage before, by hand or for an earlier run.

    A second call would split the data anew. :func:`teardown` makes it due again.

    Args:
        source: a datamodule or module.
        stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        call: what to call in place of the method itself.
    """
    call = call or (lambda: source.setup(stage))
    if keeps_count(source.setup):
        call()
    else:
        _once(source, stage_of(source.setup, (stage,), {}), call, general=ALL_STAGES)


def teardown(source: _Source, stage: str, call: Callable[[], None] | None = None) -> None:
    """Call ``source.teardown(stage)``; where the user defines it, ``setup`` of that stage is due again.

    Args:
        source: a datamodule or module.
        stage: the stage of the run that ends.
        call: what to call in place of the method itself.
    """
    from lt_core.data import DataSource
    from lt_core.overrides import is_overridden

    (call or (lambda: source.teardown(stage)))()
    if is_overridden(source, "teardown", DataSource):
        forget(source, stage)


def keeps_count(method: Any) -> bool:
    """Return whether ``method`` skips its second call by itself, as a datamodule's ``setup`` does."""
    return getattr(method, "keeps_count", False) is True


def forget(source: object, stage: str) -> None:
    """Make ``setup`` of ``stage`` due again, or of all stages; after one for all stages the others stay done."""
    done: set[str] = source.__dict__.get(_DONE, set())
    if ALL_STAGES in done or stage == ALL_STAGES:
        prepared = done & {"prepare_data"}
        done.clear()
        done |= prepared | (STAGES - {stage} if stage != ALL_STAGES else set())
    done.discard(stage)


def is_done(source: object, what: str) -> bool:
    """Return whether ``what`` (a stage, or ``"prepare_data"``) was done for ``source``."""
    done = source.__dict__.get(_DONE, ())
    return what in done or (what != "prepare_data" and ALL_STAGES in done)


def mark_done(source: object, what: str, done: bool = True) -> None:
    """Note that ``what`` was done for ``source``, or that it failed."""
    marks = source.__dict__.setdefault(_DONE, set())
    marks.add(what) if done else marks.discard(what)


def stage_of(setup: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return which stage a call ``setup(*args, **kwargs)`` is for; ``"*"`` where it names none.

    A ``setup(self)`` without a parameter is for all stages, and so is ``stage=None``, as in ``datamodule.setup()``.
    """
    parameters = list(inspect.signature(setup).parameters.values())
    if not parameters:
        return ALL_STAGES
    first = parameters[0]
    default = None if first.default is inspect.Parameter.empty else first.default
    stage = args[0] if args else kwargs.get(first.name, default)
    return ALL_STAGES if stage is None else str(getattr(stage, "value", stage))


def prepare(
    source: _Source, strategy: Strategy, per_node: bool | None = None, call: Callable[[], None] | None = None
) -> None:
    """Have ``prepare_data`` run on one process per node, or on one of the whole job, while the others wait.

    The wait has no timeout, as a download may take hours. When ``prepare_data`` raises, every rank raises the same
    error at once. Called on every rank, after ``strategy.open()``.

    Args:
        source: a datamodule or module.
        strategy: tells who this process is, and carries the messages.
        per_node: whether each node prepares its own data; default: ``source.prepare_data_per_node``.
        call: what to call in place of ``source.prepare_data``.

    Raises:
        Exception: what ``prepare_data`` raised, on this rank or another.
    """
    from lt_core.data import DataSource
    from lt_core.overrides import is_overridden

    if not is_overridden(source, "prepare_data", DataSource):
        return
    if strategy.world_size == 1:
        prepare_once_per_run(source, call)
        return
    each_node = source.prepare_data_per_node if per_node is None else per_node
    leads = strategy.local_rank == 0 if each_node else strategy.rank == 0
    outcome, error = _try_to_prepare(source, call, strategy) if leads else ("", None)
    _share(strategy, outcome, leaders=_num_nodes(strategy) if each_node else 1, error=error)


def _once(source: Any, what: str, call: Callable[[], None], general: str | None = None) -> None:
    done = source.__dict__.get(_DONE, ())
    if what not in done and general not in done:
        call()
        mark_done(source, what)


def _try_to_prepare(
    source: _Source, call: Callable[[], None] | None, strategy: Strategy
) -> tuple[str, BaseException | None]:
    """Return the message for the other ranks ("" for success) and the error itself."""
    try:
        prepare_once_per_run(source, call)
    except BaseException as error:
        told = {
            "rank": strategy.rank,
            "module": type(error).__module__,
            "kind": type(error).__qualname__,
            "message": str(error),
            "traceback": traceback.format_exc(),
        }
        return json.dumps(told), error
    return "", None


def _share(strategy: Strategy, outcome: str, leaders: int, error: BaseException | None) -> None:
    """Tell the outcome, wait for those of the other leaders, and raise the first error there is."""
    from lt_core.strategy import Strategy as Base

    leads = error is not None or strategy.rank == 0 or (leaders > 1 and strategy.local_rank == 0)
    if type(strategy).peek is Base.peek:  # a strategy without a side channel: a collective, with its timeout
        failed = next((told for told in strategy.gather_objects(outcome) if told), "")
    else:
        key = f"prepare/{next(_calls)}"
        if leads:
            strategy.post(f"{key}/{strategy.node_rank if leaders > 1 else 0}", outcome or "ok")
        failed = "" if error is not None else _wait(strategy, key, leaders)
    if error is not None:
        raise error
    if failed:
        raise _told_error(json.loads(failed))


def _wait(strategy: Strategy, key: str, leaders: int) -> str:
    waiting = set(range(leaders))
    pause, longest = _POLL_SECONDS
    while True:
        for leader in sorted(waiting):
            told = strategy.peek(f"{key}/{leader}")
            if told is not None and told != "ok":
                return told
            if told is not None:
                waiting.remove(leader)
        if not waiting:
            return ""
        time.sleep(pause)
        pause = min(2 * pause, longest)


def _num_nodes(strategy: Strategy) -> int:
    return max(strategy.placement.num_nodes, strategy.environment.nodes)


def _told_error(told: dict[str, Any]) -> BaseException:
    """Return the error of another rank, of the same class where that can be made here; its traceback is the cause."""
    where = RankError(f"prepare_data raised on rank {told['rank']}:\n{told['traceback']}", code="LT431")
    kind = getattr(sys.modules.get(told["module"]), told["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return where
    try:
        error = kind(told["message"])
    except TypeError:  # its constructor wants more than a message
        return where
    error.__cause__ = where
    return error
