"""What measures where the time goes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from lt_core.interface import Interface, is_overridden
from lt_core.rank import process_rank
from lt_core.terminal import say

__all__ = ["ActionProfiler", "Profiler", "by_action"]


class Profiler(Interface):
    """The interface of a profiler; the default measures nothing and is in no call path at all.

    With a profiler, the Trainer wraps each slot and hook of the plan once, before the run, in :meth:`wrap`; without one
    the slots are the bare callables. Found by an entry point in ``lt.profilers`` (a class or a function without
    arguments); users may also pass an instance. One as Lightning has them, with ``start(action_name)`` and
    ``stop(action_name)``, works too: :func:`by_action`.

    Training is the same with it as without: it draws no random number and changes neither arguments, results nor
    errors. One object serves several runs, one after another. A strategy that starts processes pickles it before a run.
    ``lt_testing.ProfilerKit`` tests all of this.
    """

    def __init__(self, dirpath: Any = None, filename: str | None = None) -> None:
        """Keep where a report is to go, as Lightning's do; one of your own need not call this."""
        self.dirpath, self.filename = dirpath, filename

    def start(self, stage: str, log_dir: str | None) -> None:
        """A run of ``stage`` (``"fit"``, ``"validate"``, ``"test"``, ``"predict"``) begins; reports go to
        ``log_dir``, or to where the user wants them, and nowhere else.
        """

    def wrap(self, name: str, function: Any) -> Any:
        """Return ``function`` measured under ``name``, such as ``"training_step"`` or
        ``"MyCallback.on_train_start"``.

        It is called in place of ``function``, with the same arguments, result and errors (``StopIteration`` too: the
        next batch is measured as ``"get_batch"``), before :meth:`start` and after :meth:`stop` as well. Several
        functions may be wrapped under one name, and measured calls stand in one another.
        """
        return function

    def profile(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that is measured under ``name``; for users, in their own steps. It lets errors out."""
        mine = by_action(self)
        return nullcontext() if mine is self else mine.profile(name)

    def step(self) -> None:
        """One batch is done."""

    def stop(self) -> None:
        """The run is over, be it by an error; write the report. Where no run has begun, do nothing."""

    def describe(self) -> None:
        """Print the report as it stands now."""
        say(self.summary())

    def summary(self) -> str:
        """Return the report as text; before, during and after a run."""
        return ""


def by_action(profiler: Profiler) -> Profiler:
    """Return ``profiler``, or what calls it where its ``start`` takes the name of an action and nothing else."""
    if not is_overridden(profiler, "start", Profiler):
        return profiler
    taken = [p for p in inspect.signature(profiler.start).parameters.values() if p.default is p.empty]
    if len(taken) != 1:
        return profiler
    known: ActionProfiler = profiler.__dict__.setdefault("_called_by", ActionProfiler(profiler))
    return known


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
            self.own.setup(stage=stage, local_rank=process_rank(), log_dir=log_dir)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.profile(name):
                return function(*args, **kwargs)

        return functools.update_wrapper(measured, function) if hasattr(function, "__name__") else measured

    @contextmanager
    def profile(self, name: str) -> Iterator[None]:
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
