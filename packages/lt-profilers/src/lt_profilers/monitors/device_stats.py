"""Sends readings of the device to the loggers."""

from __future__ import annotations

from typing import Any

from lt_callbacks.arguments import require_logger, require_package
from lt_callbacks.monitors.logged_steps import LoggedSteps
from lt_core.arguments import checks_arguments
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI
from lt_profilers.monitors.evaluation_axis import EvaluationRows, in_evaluation

__all__ = ["DeviceStatsMonitor"]


class DeviceStatsMonitor(EvaluationRows):
    """Sends memory, load and temperature of the device to the loggers, at the start and end of batches that are logged.

    Rows of an evaluation stand at the number of its batch, of all validations of the fit.

    Args:
        cpu_stats: load and memory of the CPU too; None: where the CPU is the device. Needs psutil.

    Raises:
        ConfigError: at the start where there is no logger, or psutil is missing.
    """

    @checks_arguments
    def __init__(self, cpu_stats: bool | None = None) -> None:
        self._cpu_stats = cpu_stats
        self._lt_reads_cpu = False
        self._lt_at_start, self._lt_at_end = LoggedSteps(), LoggedSteps()

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage not in ("fit", "validate", "test"):
            return
        require_logger("DeviceStatsMonitor", trainer)
        on_cpu = trainer.accelerator.device_type == "cpu"
        self._lt_reads_cpu = on_cpu if self._cpu_stats is None else self._cpu_stats
        if self._lt_reads_cpu:
            who, instead = "DeviceStatsMonitor, which reads the CPU,", ", or take cpu_stats=False."
            require_package(who, "psutil", "lt-profilers[psutil]", instead)

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_at_start, self._lt_at_end = LoggedSteps(), LoggedSteps()

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._lt_at_start.is_due(trainer, coming=True):
            self._lt_send(trainer, "on_train_batch_start", int(trainer.elapsed("steps")))

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._lt_at_end.is_due(trainer):
            self._lt_send(trainer, "on_train_batch_end", None)

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
        number = self._lt_next_row(trainer)
        if in_evaluation(trainer, batch_idx + 1):
            phase = "test" if trainer.testing else "validation"
            self._lt_send(trainer, f"on_{phase}_batch_end", number)

    on_test_batch_end = on_validation_batch_end

    def _lt_send(self, trainer: TrainerAPI, hook: str, step: int | None) -> None:
        stats = dict(trainer.accelerator.stats(trainer.strategy.device))
        if self._lt_reads_cpu:
            stats |= _cpu_stats()
        prefix = f"{type(self).__qualname__}.{hook}"
        trainer.log_metrics({f"{prefix}/{name}": value for name, value in stats.items()}, step)


def _cpu_stats() -> dict[str, float]:
    """Return percent of all cores in use, of memory and of swap, and this process's memory in bytes."""
    import psutil

    return {
        "cpu_percent": psutil.cpu_percent(),
        "cpu_vm_percent": psutil.virtual_memory().percent,
        "cpu_swap_percent": psutil.swap_memory().percent,
        "cpu_process_bytes": float(psutil.Process().memory_info().rss),
    }
