"""Records GPU memory allocations, for torch's memory viewer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from lt_callbacks.arguments import whole
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError, recording
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["MemorySnapshot"]


class MemorySnapshot(Callback):
    """Records every allocation of CUDA memory and writes snapshots that https://pytorch.org/memory_viz opens.

    One snapshot is written after ``stop_step``, and one when memory runs out; recording costs time at each allocation.

    Args:
        dirpath: folder of the snapshots; default ``memory`` in the run's log folder.
        start_step: optimizer step at which recording begins.
        stop_step: optimizer step after which it ends and the snapshot is written; None: at the end of training.
        max_entries: allocations kept.

    Attributes:
        paths: the snapshots written by this process.

    Raises:
        ConfigError: for wrong counts; at the start where the device is not CUDA.
    """

    @checks_arguments
    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        start_step: int = 0,
        stop_step: int | None = None,
        max_entries: int = 100_000,
    ) -> None:
        self.dirpath = dirpath
        self.start_step = whole("MemorySnapshot", "start_step", start_step)
        if stop_step is not None:
            whole("MemorySnapshot", "stop_step", stop_step, start_step + 1, "more than start_step")
        self.stop_step = stop_step
        self.max_entries = whole("MemorySnapshot", "max_entries", max_entries, 1)
        self.paths: list[str] = []
        self._lt_recording = self._lt_done = False

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.paths = []

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        device = trainer.strategy.device
        if device.type != "cuda":
            raise ConfigError(
                f"MemorySnapshot records CUDA memory, and the device is {device}. Remove the callback, or take "
                "accelerator='cuda'.",
                code="LT178",
            )

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if not self._lt_recording and not self._lt_done and trainer.global_step >= self.start_step:
            torch.cuda.memory._record_memory_history(max_entries=self.max_entries)
            self._lt_recording = True

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._lt_recording and self.stop_step is not None and trainer.global_step >= self.stop_step:
            self._lt_write(trainer, "steps")

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Write the snapshot where no step said so before."""
        if self._lt_recording:
            self._lt_write(trainer, "steps")

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        if self._lt_recording:
            self._lt_write(trainer, "out_of_memory" if isinstance(exception, torch.OutOfMemoryError) else "exception")

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        if self._lt_recording:
            torch.cuda.memory._record_memory_history(enabled=None)
        self._lt_recording = self._lt_done = False

    def _lt_write(self, trainer: TrainerAPI, why: str) -> None:
        folder = Path(self.dirpath) if self.dirpath is not None else Path(trainer.log_dir or ".") / "memory"
        path = folder / f"rank{trainer.global_rank}-step{trainer.global_step}-{why}.pickle"
        with recording(str(path)):
            folder.mkdir(parents=True, exist_ok=True)
            torch.cuda.memory._dump_snapshot(str(path))  # type: ignore[no-untyped-call]
            self.paths.append(str(path))
            trainer.print(f"Memory snapshot: {path} (open it at https://pytorch.org/memory_viz)")
        torch.cuda.memory._record_memory_history(enabled=None)
        self._lt_recording, self._lt_done = False, True
