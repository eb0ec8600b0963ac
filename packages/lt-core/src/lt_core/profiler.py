"""What measures where the time goes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

__all__ = ["Profiler"]


class Profiler:
    """The interface of a profiler; the default measures nothing and is in no call path at all.

    With a profiler, the Trainer wraps each slot and hook of the plan once, before the run, in :meth:`wrap`; without one
    the slots are the bare callables. Found by an entry point in ``lt.profilers`` (a class or a function without
    arguments); users may also pass an instance. One as Lightning has them, with ``start(action_name)`` and
    ``stop(action_name)``, works too (:mod:`lt_core.action_profiler`).
    """

    def start(self, stage: str, log_dir: str | None) -> None:
        """A run of ``stage`` (``"fit"``, ``"validate"``, ``"test"``, ``"predict"``) begins; reports go to
        ``log_dir``.
        """

    def wrap(self, name: str, function: Any) -> Any:
        """Return ``function`` measured under ``name``, such as ``"training_step"`` or
        ``"MyCallback.on_train_start"``.
        """
        return function

    def profile(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that is measured under ``name``; for users, in their own steps."""
        return nullcontext()

    def step(self) -> None:
        """One batch is done."""

    def stop(self) -> None:
        """The run is over; write the report."""

    def describe(self) -> None:
        """Print the report as it stands now."""
        print(self.summary())  # noqa: T201  (what it is for)

    def summary(self) -> str:
        """Return the report as text."""
        return ""
