"""Measures samples, tokens and floating-point operations a second."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from lt_callbacks.arguments import require_logger, whole
from lt_callbacks.monitors.logged_steps import LoggedSteps
from lt_core.arguments import checks_arguments
from lt_core.batch import batch_size_of
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI
from lt_profilers.monitors.chip_flops import available_flops as flops_of_chip
from lt_profilers.monitors.evaluation_axis import EvaluationRows, in_evaluation

__all__ = ["ThroughputMonitor"]


class _Reading(NamedTuple):
    seconds: float
    batches: int
    samples: int
    lengths: int


class _Meter:
    """Counts of one stage, and readings of them at the batches that were logged."""

    def __init__(self, window: int) -> None:
        self.began = perf_counter()
        self.batches = self.samples = self.lengths = 0
        self.readings: deque[_Reading] = deque([_Reading(0.0, 0, 0, 0)])
        self._window = window

    def read(self) -> tuple[_Reading, _Reading]:
        """Return the oldest reading that lies in the window, and one of now."""
        now = _Reading(perf_counter() - self.began, self.batches, self.samples, self.lengths)
        self.readings.append(now)
        while len(self.readings) > 2 and now.batches - self.readings[1].batches >= self._window:
            self.readings.popleft()
        return self.readings[0], now


class ThroughputMonitor(EvaluationRows):
    """Sends throughput to the loggers wherever other values are logged.

    Names, after the stage (``train/``): ``time`` (seconds), ``batches``, ``samples``, ``lengths`` so far;
    ``device/batches_per_sec``, ``device/samples_per_sec``, ``device/items_per_sec`` (tokens), ``device/flops_per_sec``
    and ``device/mfu`` (share of the chip's peak) lately; without ``device/`` the same for all ranks. The
    device is waited for only where something is logged; validation does not count as training time. Rows of an
    evaluation stand at the number of its batch, over all validations of the fit, as its step values do.

    Operations come from the module's ``flops_per_batch`` (a number, for one batch with its backward), or are counted in
    the first batch.

    Args:
        batch_size_fn: returns the samples of a batch; default: the first dimension of its tensors.
        length_fn: returns the items (tokens) of a batch; None for none.
        window_size: batches over which rates are taken.
        available_flops: operations a second of the chip; None: from a table of known chips.
        separator: between the parts of a name.
        measure_flops: count the operations of the first batch where the module does not give their number.

    Raises:
        ConfigError: for wrong values; at the start where there is no logger.
    """

    @checks_arguments
    def __init__(
        self,
        batch_size_fn: Callable[[Any], int] | None = None,
        length_fn: Callable[[Any], int] | None = None,
        *,
        window_size: int = 100,
        available_flops: float | None = None,
        separator: str = "/",
        measure_flops: bool = False,
    ) -> None:
        self.batch_size_fn = batch_size_fn or batch_size_of
        self.length_fn = length_fn
        self.window_size = whole("ThroughputMonitor", "window_size", window_size, 2)
        self.available_flops = available_flops
        self.separator = separator
        self.measure_flops = measure_flops
        self._lt_meters: dict[str, _Meter] = {}
        self._lt_counter: FlopCounterMode | None = None
        self._lt_flops_per_batch: float | None = None
        self._lt_left = 0.0
        self._lt_logged = LoggedSteps()
        self._lt_found_flops: float | None = None  # of the chip

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Check that there is a logger, and look up the chip's peak."""
        require_logger("ThroughputMonitor", trainer)
        super().setup(trainer, pl_module, stage)
        if self.available_flops == self._lt_found_flops:  # not the user's
            self.available_flops = self._lt_found_flops = flops_of_chip(
                trainer.strategy.device, trainer.precision_plugin.name
            )
        given = getattr(pl_module, "flops_per_batch", None)
        self._lt_flops_per_batch = float(given() if callable(given) else given) if given is not None else None

    # ---- training ----------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_logged = LoggedSteps()
        self._lt_begin(trainer, "train")

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.measure_flops and self._lt_flops_per_batch is None:
            self._lt_counter = FlopCounterMode(display=False)
            self._lt_counter.__enter__()  # type: ignore[no-untyped-call]

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._lt_end_counting()
        self._lt_count("train", batch)
        if self._lt_logged.is_due(trainer):
            self._lt_send(trainer, "train")

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        self._lt_end_counting()

    # ---- evaluation --------------------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Begin to count; training time stands still."""
        self._lt_left = perf_counter()
        self._lt_begin(trainer, "validate")

    def on_validation_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if trainer.sanity_checking:
            return
        stage = "test" if trainer.testing else "predict" if trainer.predicting else "validate"
        self._lt_count(stage, batch)
        number = self._lt_next_row(trainer)
        if in_evaluation(trainer, self._lt_meters[stage].batches):
            self._lt_send(trainer, stage, number)

    on_test_batch_end = on_predict_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Let training time go on."""
        training = self._lt_meters.get("train")
        if training is not None:
            training.began += perf_counter() - self._lt_left

    def on_test_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_begin(trainer, "test")

    def on_predict_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_begin(trainer, "predict")

    # ---- counting ----------------------------------------------------------------------------------------------------

    def _lt_begin(self, trainer: TrainerAPI, stage: str) -> None:
        _wait_for(trainer.strategy.device)
        self._lt_meters[stage] = _Meter(self.window_size)

    def _lt_count(self, stage: str, batch: Any) -> None:
        meter = self._lt_meters[stage]
        meter.batches += 1
        meter.samples += self.batch_size_fn(batch)
        if self.length_fn is not None:
            meter.lengths += self.length_fn(batch)

    def _lt_end_counting(self) -> None:
        if self._lt_counter is not None:
            self._lt_counter.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._lt_flops_per_batch = float(self._lt_counter.get_total_flops())
            self._lt_counter = None

    def _lt_send(self, trainer: TrainerAPI, stage: str, step: int | None = None) -> None:
        _wait_for(trainer.strategy.device)
        before, now = self._lt_meters[stage].read()
        values: dict[str, float] = {"time": now.seconds, "batches": now.batches, "samples": now.samples}
        if self.length_fn is not None:
            values["lengths"] = now.lengths
        rates = self._lt_rates(before, now, trains=stage == "train")
        values |= {f"device{self.separator}{name}": rate for name, rate in rates.items()}
        if trainer.world_size > 1:
            values |= {name: rate * trainer.world_size for name, rate in rates.items() if name != "mfu"}
        trainer.log_metrics({f"{stage}{self.separator}{name}": value for name, value in values.items()}, step)

    def _lt_rates(self, before: _Reading, now: _Reading, trains: bool) -> dict[str, float]:
        seconds = max(now.seconds - before.seconds, 1e-9)
        rates = {
            "batches_per_sec": (now.batches - before.batches) / seconds,
            "samples_per_sec": (now.samples - before.samples) / seconds,
        }
        if self.length_fn is not None:
            rates["items_per_sec"] = (now.lengths - before.lengths) / seconds
        if trains and self._lt_flops_per_batch is not None:
            rates["flops_per_sec"] = rates["batches_per_sec"] * self._lt_flops_per_batch
            if self.available_flops:
                rates["mfu"] = rates["flops_per_sec"] / self.available_flops
        return rates


def _wait_for(device: torch.device) -> None:
    """Let the device finish, so that the clock shows finished work and not queued work."""
    if device.type in ("cuda", "mps", "xpu"):
        torch.accelerator.synchronize(device)
