"""What is done once for a source of data: ``prepare_data`` on one process while the others wait, ``setup`` by stage."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lt_core import plugins
from lt_core.data import DataSource
from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_core.ranks import Ranks
from lt_core.states import Stage

__all__ = ["Done", "prepare", "setup_once", "teardown"]

_ALL_STAGES = "*"
"""Stands for every stage: ``setup()`` without one."""

_STAGES = frozenset(stage.run for stage in Stage)

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

    It runs once: not again where this process did it before, by hand or for an earlier run. Called on every rank, after
    ``strategy.open()``; for several ranks lt-data does it.

    Args:
        source: a datamodule or module.
        ranks: says which process this is, and carries the messages.
        per_node: whether each node prepares its own data; default: ``source.prepare_data_per_node``.
        call: what to call in place of ``source.prepare_data``.

    Raises:
        Exception: what ``prepare_data`` raised, on this rank or another.
        ConfigError: for several ranks without lt-data.
    """
    if not is_overridden(source, "prepare_data", DataSource):
        return
    call = call or source.prepare_data
    if ranks.world_size == 1:
        _once(source, "prepare_data", call)
        return
    on_one = plugins.find("data", "prepare")
    if on_one is None:
        raise ConfigError(
            f"prepare_data on one of {ranks.world_size} ranks, while the others wait, comes with lt-data: "
            f"{plugins.install_hint('lt-data')}",
            code="LT104",
        )
    each_node = source.prepare_data_per_node if per_node is None else per_node
    on_one(lambda: _once(source, "prepare_data", call), ranks, each_node)


def _once(source: DataSource, what: str, call: Callable[[], None]) -> None:
    done = Done(source)
    if what not in done:
        call()
        done.add(what)
