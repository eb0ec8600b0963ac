"""Measures how long stages take, and ends training when its time is used up."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any

from lt_callbacks.arguments import choice
from lt_callbacks.monitored import when_it_ends
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.duration import AgreedTime, Duration
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["Timer"]

_STAGES = ("train", "validate", "test", "sanity_check")


class Timer(Callback):
    """Measures the seconds of training, validation and test, and ends training after ``duration``.

    The state holds the elapsed seconds, so that a resumed run has the rest of its time. All ranks stop together.

    Args:
        duration: ``"2 h"``, ``"DD:HH:MM:SS"``, a timedelta or its arguments as a dict; None never ends training.
        interval: look at the clock after each ``"step"`` or each ``"epoch"``.
        verbose: say when the time is over.

    Raises:
        ConfigError: for another duration or interval.
    """

    batch_hooks_every = 0

    @checks_arguments
    def __init__(
        self,
        duration: str | timedelta | dict[str, int] | None = None,
        interval: str = "step",
        verbose: bool = True,
    ) -> None:
        super().__init__()
        self._duration = None if duration is None else Duration.time(duration, "Timer(duration={})").total_seconds()
        self._interval = choice("Timer", "interval", interval, ("step", "epoch"))
        self._verbose = verbose
        self._lt_forget_fit()
        self._lt_clock: AgreedTime | None = None

    def _lt_forget_fit(self) -> None:
        self._lt_started: dict[str, float] = {}
        self._lt_ended: dict[str, float] = {}
        self._lt_before = dict.fromkeys(_STAGES, 0.0)

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_forget_fit()

    def explain(self) -> str:
        return "" if self._duration is None else f"ends training after {timedelta(seconds=self._duration)}"

    def start_time(self, stage: str = "train") -> float | None:
        """Return when ``stage`` began, in seconds of a clock without an epoch; None where it has not."""
        return self._lt_started.get(_stage(stage))

    def end_time(self, stage: str = "train") -> float | None:
        """Return when ``stage`` ended, on the same clock; None where it has not."""
        return self._lt_ended.get(_stage(stage))

    def time_elapsed(self, stage: str = "train") -> float:
        """Return the seconds spent in ``stage``, those before a resume included."""
        stage = _stage(stage)
        start, end = self.start_time(stage), self.end_time(stage)
        if start is None:
            return self._lt_before[stage]
        return (monotonic() if end is None else end) - start + self._lt_before[stage]

    def time_remaining(self, stage: str = "train") -> float | None:
        """Return the seconds left of ``duration``, or None where there is no limit."""
        return None if self._duration is None else self._duration - self.time_elapsed(stage)

    def state_dict(self) -> dict[str, Any]:
        return {"time_elapsed": {stage: self.time_elapsed(stage) for stage in _STAGES}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._lt_forget_fit()
        self._lt_before |= {stage: float(seconds) for stage, seconds in state_dict.get("time_elapsed", {}).items()}

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Start the clock; a resumed run whose time is over stops here."""
        self._lt_start("train")
        left = self.time_remaining()
        if left is not None:
            self._lt_clock = AgreedTime(trainer.total_batches)
            if left <= 0:
                self._lt_stop(trainer)

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._interval == "step":
            self._lt_stop_in_time(trainer)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if self._interval == "epoch":
            self._lt_stop_in_time(trainer)

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_ended["train"] = monotonic()
        self._lt_clock = None

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_start("sanity_check" if trainer.sanity_checking else "validate")

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_ended["sanity_check" if trainer.sanity_checking else "validate"] = monotonic()

    def on_test_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_start("test")

    def on_test_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_ended["test"] = monotonic()

    def _lt_start(self, stage: str) -> None:
        """Start the clock of ``stage``; earlier time in this process counts too."""
        self._lt_before[stage] = self.time_elapsed(stage)
        self._lt_started[stage] = monotonic()
        self._lt_ended.pop(stage, None)

    def _lt_stop_in_time(self, trainer: TrainerAPI) -> None:
        left = self.time_remaining()
        if self._lt_clock is not None and left is not None and self._lt_clock.left(left, trainer) <= 0:
            self._lt_stop(trainer)

    def _lt_stop(self, trainer: TrainerAPI) -> None:
        limit = timedelta(seconds=self._duration or 0)
        if self._verbose and not trainer.should_stop:
            trainer.print(f"{when_it_ends(trainer)}: the time of {limit} is over.")
        trainer.stop(f"Timer: {limit} are over")


def _stage(stage: str) -> str:
    return choice("Timer", "stage", str(getattr(stage, "value", stage)), _STAGES)
