"""The interface of profilers."""

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lt_core import plugins
from lt_core.interface import Interface, is_overridden
from lt_core.terminal import say

__all__ = ["Profiler", "by_action"]


class Profiler(Interface):
    """The interface of a profiler; the default measures nothing and is in no call path at all.

    With a profiler, the Trainer wraps each slot and hook of the plan once, before the run, in :meth:`wrap`; without one
    the slots are the bare callables. Found by an entry point in ``lt.profilers`` (a class or a function without
    arguments); users may also pass an instance. One as Lightning has them, with ``start(action_name)`` and
    ``stop(action_name)``, works where lt-compat is installed: :func:`by_action`.

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
    """Return ``profiler``, wrapped by lt-compat if its ``start`` takes the name of an action and nothing else."""
    if is_overridden(profiler, "start", Profiler):
        required = [p for p in inspect.signature(profiler.start).parameters.values() if p.default is p.empty]
        if len(required) == 1:
            profiler = profiler.__dict__.setdefault("_called_by", plugins.load("defaults", "action_profiler")(profiler))
    return profiler
