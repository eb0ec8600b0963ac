"""Profilers whose ``start`` takes the name of an action, called as lt's own are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch.distributed as dist

from lt_core.interface import is_overridden
from lt_core.profiler import Profiler
from lt_core.rank import process_rank

__all__ = ["ActionProfiler"]


class ActionProfiler(Profiler):
    """Calls ``own.start(name)`` before each action and ``own.stop(name)`` after it, and ``own.describe()`` at the end.

    Args:
        own: the user's profiler.
    """

    def __init__(self, own: Any) -> None:
        self.own = own
        self._stage = ""

    def start(self, stage: str, log_dir: str | None) -> None:
        self._stage = stage
        if hasattr(self.own, "setup"):
            # as in Lightning, files of one process have no rank in their names
            alone = not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1
            self.own.setup(stage=stage, local_rank=None if alone else process_rank(), log_dir=log_dir)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.profile(name):
                return function(*args, **kwargs)

        return functools.update_wrapper(measured, function) if hasattr(function, "__name__") else measured

    def profile(self, name: str) -> AbstractContextManager[Any]:
        around: Any = self.own.profile if is_overridden(self.own, "profile", Profiler) else self._around
        return around(name)  # type: ignore[no-any-return]

    @contextmanager
    def _around(self, name: str) -> Iterator[None]:
        self.own.start(name)
        try:
            yield
        finally:
            self.own.stop(name)

    def stop(self) -> None:
        stage, self._stage = self._stage, ""
        if not stage:
            return
        self.own.describe()
        if hasattr(self.own, "teardown"):
            self.own.teardown(stage=stage)

    def summary(self) -> str:
        return str(self.own.summary())
