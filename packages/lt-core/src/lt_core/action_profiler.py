"""Profilers as Lightning has them, whose ``start`` and ``stop`` take the name of an action."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lt_core.overrides import is_overridden
from lt_core.profiler import Profiler
from lt_core.rank import process_rank

__all__ = ["ActionProfiler", "by_action"]


def by_action(profiler: Profiler) -> Profiler:
    """Return ``profiler``, or what calls it where its ``start`` takes the name of an action and nothing else."""
    if not is_overridden(profiler, "start", Profiler):
        return profiler
    taken = [p for p in inspect.signature(profiler.start).parameters.values() if p.default is p.empty]
    if len(taken) != 1:
        return profiler
    known: ActionProfiler | None = profiler.__dict__.get("_called_by")
    if known is None:
        known = profiler.__dict__["_called_by"] = ActionProfiler(profiler)
    return known


class ActionProfiler(Profiler):
    """Calls ``own.start(name)`` before each action and ``own.stop(name)`` after it, and ``own.describe()`` at the end.

    ``own.profile(name)`` measures a block of the user's by the same two calls, unless it has its own.

    Args:
        own: the user's profiler.
    """

    def __init__(self, own: Any) -> None:
        self.own = own
        self._stage = ""
        if not is_overridden(own, "profile", Profiler):
            own.profile = self.profile

    def start(self, stage: str, log_dir: str | None) -> None:
        self._stage = stage
        if hasattr(self.own, "setup"):
            self.own.setup(stage=stage, local_rank=process_rank(), log_dir=log_dir)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.profile(name):
                return function(*args, **kwargs)

        return functools.update_wrapper(measured, function) if hasattr(function, "__name__") else measured

    def profile(self, name: str) -> AbstractContextManager[Any]:
        return self._between(name)

    def stop(self) -> None:
        stage, self._stage = self._stage, ""
        if not stage:
            return
        self.own.describe()
        if hasattr(self.own, "teardown"):
            self.own.teardown(stage=stage)

    def summary(self) -> str:
        return str(self.own.summary())

    @contextmanager
    def _between(self, name: str) -> Iterator[None]:
        self.own.start(name)
        try:
            yield
        finally:
            self.own.stop(name)
