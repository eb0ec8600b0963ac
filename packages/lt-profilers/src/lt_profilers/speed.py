"""Says where the time of a run went, which lines wait for the device, and which settings would help most."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

from lt_core.states import Stage
from lt_profilers.advice import Advice, most_helpful
from lt_profilers.simple import SimpleProfiler
from lt_profilers.syncs import SyncWatch

__all__ = ["SpeedProfiler"]

_WARM_UP = 2
"""First batches, not watched: they are slower than later ones."""
_WATCHED = 5
"""Batches that are watched for host-device syncs; their time is left out, as watching costs time."""
_STEPS = {stage.run: stage.step for stage in Stage}


class SpeedProfiler(SimpleProfiler):
    """Reports the shares of the time, hooks by callback, the syncs of a step with their lines, and advice.

    Time before the first step (torch imports much then) has a line of its own, as a longer run waits
    no longer.
    A measured call costs about a microsecond. The host-device syncs of five steps at the beginning are counted, on a
    CPU too; a compiled step is not compiled in those.

    Args:
        dirpath: folder of the report; None: the run's log folder, where a ``filename`` is given.
        filename: name of the report without ending, one for each rank; None: rank 0 prints it.
    """

    def __init__(self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None) -> None:
        super().__init__(dirpath, filename)
        self.optimizers: set[Any] = set()
        self.device = "cpu"
        self.watched = self.batches = 0
        self._lt_watch = SyncWatch()
        self._lt_watching: float | None = None
        self._lt_left_out = self.start_seconds = 0.0

    def start(self, stage: str, log_dir: str | None) -> None:
        super().start(stage, log_dir)
        self._lt_watch = SyncWatch()
        self.optimizers.clear()
        self.watched = self.batches = 0
        self._lt_left_out = self.start_seconds = 0.0

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        measured = super().wrap(name, function)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if name == _STEPS.get(self.stage) and not self.start_seconds:
                self._lt_end_start()
            if self._lt_watching is None:
                return measured(*args, **kwargs)
            if name == "optimizer_step" and args:
                self._lt_note(args[0])
            if name == _STEPS.get(self.stage):
                self.watched += 1
            self._lt_watch.paused = name == "get_batch"
            try:
                return function(*args, **kwargs)
            finally:
                self._lt_watch.paused = False

        return watched

    def step(self) -> None:
        self.batches += 1
        if self._lt_watching is not None:
            if self.watched >= _WATCHED:
                self._lt_end_watching()
        elif self.watched < _WATCHED and self._lt_main_calls() >= _WARM_UP:
            self._lt_watching = perf_counter()
            self._lt_watch.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        self._lt_end_watching()
        super().stop()

    def summary(self) -> str:
        seconds = self._lt_seconds_so_far()
        shares = self.shares()
        start = f"after {self.start_seconds:.2f} s until the first step"
        lines = [f"Speed of {self.stage or 'nothing'}: {seconds:.2f} s {start}, {self.batches} batches."]
        lines += [f"  {name:<12} {share:7.1%}" for name, share in shares.items() if share or name == "lt"]
        lines += [f"    {name:<22} {share:7.1%}" for name, share in self.hooks().items() if share >= 0.0005]
        lines += self._lt_sync_lines()
        lines += self._lt_advice_lines(shares)
        return "\n".join(lines)

    def hooks(self) -> dict[str, float]:
        """Return the share of the time of each callback's (and the module's) hooks, the largest first."""
        seconds, spent = self._lt_seconds_so_far() or 1.0, dict[str, float]()
        for name, action in self.actions.items():
            owner, dot, _ = name.partition(".")
            if dot and action.calls:
                spent[owner] = spent.get(owner, 0.0) + action.own / seconds
        return dict(sorted(spent.items(), key=lambda item: -item[1]))

    def syncs_per_step(self) -> float:
        """Return how often a watched step waited for the device."""
        return self._lt_watch.lines.total() / self.watched if self.watched else 0.0

    def advice(self) -> list[Advice]:
        """Return the three settings that would help most, the best first."""
        return most_helpful(
            self.shares(),
            self.hooks(),
            self._lt_watch,
            self.optimizers,
            self.device,
            self._lt_seconds_so_far() / max(self.batches - self.watched, 1),
        )

    def _lt_sync_lines(self) -> list[str]:
        if not self.watched:
            return ["Host-device syncs: the run was too short to watch any step."]
        title = "Host-device syncs" if self.device != "cpu" else "Lines that would wait for a GPU"
        lines = self._lt_watch.report(self.watched)
        return [
            f"{title}: {self.syncs_per_step():g} a step, in {self.watched} steps.",
            *(f"  {line}" for line in lines),
        ]

    def _lt_advice_lines(self, shares: dict[str, float]) -> list[str]:
        found = self.advice()
        if not found:
            return ["Nothing stands out: the time went to your model." if shares else ""]
        lines = [f"  {i}. up to {advice.gain:.0%}: {advice.text}" for i, advice in enumerate(found, 1)]
        return ["What would help most:", *lines]

    def _lt_end_start(self) -> None:
        for action in self.actions.values():
            action.reset()
        self.start_seconds = self._lt_seconds_so_far()
        self._lt_left_out += self.start_seconds

    def _lt_note(self, optimizer: Any) -> None:
        inner = getattr(optimizer, "optimizer", optimizer)
        self.optimizers.add(inner)
        params = [p for group in getattr(inner, "param_groups", []) for p in group["params"]]
        self.device = params[0].device.type if params else self.device

    def _lt_main_calls(self) -> int:
        action = self.actions.get(_STEPS.get(self.stage, ""))
        return action.calls if action is not None else 0

    def _lt_end_watching(self) -> None:
        if self._lt_watching is None:
            return
        self._lt_watch.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._lt_left_out += perf_counter() - self._lt_watching
        self._lt_watching = None

    def _lt_seconds_so_far(self) -> float:
        return max(super()._lt_seconds_so_far() - self._lt_left_out, 0.0)
