"""A Trainer without a run, for unit tests of callbacks, loggers and modules."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core import CallbackBase
from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.collectives import Collectives
from lt_core.data import DataSource, Feed, make_feed
from lt_core.duration import Unit
from lt_core.files.checkpoint_header import Header
from lt_core.logger import Logger
from lt_core.logging.recorder import Recorder
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.strategy import Strategy
from lt_core.trainer import TrainerAPI

__all__ = ["FakeTrainer"]

Counts = list[int | float]


class FakeTrainer(Collectives):
    """A Trainer for unit tests of callbacks and modules: all of ``TrainerAPI`` as plain attributes, no loop.

    Set attributes by keyword (``FakeTrainer(global_step=10, callback_metrics={"loss": 1.0})``) or later.
    Requested saves are written immediately (a small real file) and kept in ``saved``; removals are kept in ``removed``.

    Args:
        attributes: values of any ``TrainerAPI`` attribute.
    """

    should_stop = False
    max_epochs: int | None = 1
    min_epochs: int | None = None
    max_steps = -1
    min_steps: int | None = None
    accumulate_grad_batches: int | Literal["auto"] | dict[int, int] = 1
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: str | None = None
    limit_train_batches: int | float | None = None
    limit_val_batches: int | float | None = None
    val_check_interval: Any = 1.0
    check_val_every_n_epoch: int | None = 1
    log_every_n_steps: Any = 50
    datamodule: DataSource | None = None
    global_rank = local_rank = node_rank = 0
    world_size = num_devices = num_nodes = 1
    is_global_zero = True
    fast_dev_run: bool | int = False
    named_checkpoint: str | None = None
    resumes_automatically = False
    default_root_dir = "."
    stage: str | None = "fit"
    training, validating, testing, predicting = True, False, False, False
    sanity_checking = interrupted = False
    stop_reason = ""
    current_epoch = global_step = batch_idx = total_batches = 0
    global_samples = global_tokens = 0
    num_training_batches: int | float = math.inf
    estimated_stepping_batches: int | float = math.inf
    train_dataloader: Any = None
    val_dataloaders: Any = None
    test_dataloaders: Any = None
    predict_dataloaders: Any = None
    reloads = 0
    indices: Sequence[int] | None = None

    def __init__(self, **attributes: Any) -> None:
        """Fill in harmless defaults, then ``attributes``."""
        self.lightning_module: LightningModule = LightningModule()
        self.callbacks: list[Callback] = []
        self.loggers: list[Logger] = []
        self.strategy: Strategy = Strategy()
        self.accelerator: Accelerator = Accelerator()
        self.precision_plugin: Precision = Precision()
        self.profiler: Profiler = Profiler()
        self.checkpoint_io: CheckpointIO = CheckpointIO()
        self.recorder: Recorder = Recorder()
        self.optimizers: list[Optimizer] = []
        self.lr_scheduler_configs: list[Any] = []
        self.num_val_batches: Counts = []
        self.num_sanity_val_batches: Counts = []
        self.num_test_batches: Counts = []
        self.num_predict_batches: Counts = []
        self.callback_metrics: dict[str, Tensor] = {}
        self.logged_metrics: dict[str, Tensor] = {}
        self.progress_bar_metrics: dict[str, float] = {}
        self.saved: list[str] = []
        self.removed: list[str] = []
        self.printed: list[str] = []
        self.trials: list[dict[str, Any]] = []
        for name, value in attributes.items():
            setattr(self, name, value)
        self.callback_metrics = {name: torch.as_tensor(value) for name, value in self.callback_metrics.items()}

    @property
    def model(self) -> nn.Module | None:
        """The module."""
        return self.lightning_module

    @property
    def logger(self) -> Logger | None:
        """The first logger."""
        return self.loggers[0] if self.loggers else None

    @property
    def log_dir(self) -> str | None:
        """The first logger's folder, else the root."""
        return self.logger.log_dir if self.logger is not None else self.default_root_dir

    def predict_indices(self, dataloader_idx: int = 0) -> Sequence[int] | None:
        """Return the positions that a test has set as ``indices``."""
        return self.indices

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Send numbers to the loggers."""
        for logger in self.loggers:
            logger.log_metrics(metrics=metrics, step=self.global_step if step is None else step)

    def log_media(self, name: str, value: Any, step: int | None = None) -> None:
        """Send media to the loggers."""
        for logger in self.loggers:
            logger.log_media(name, value, self.global_step if step is None else step)

    def stop(self, reason: str) -> None:
        """Set ``should_stop``; keep the reason."""
        self.should_stop, self.stop_reason = True, self.stop_reason or reason

    def save_checkpoint(
        self,
        filepath: str | PathLike[str],
        weights_only: bool = False,
        storage_options: Any = None,
        *,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        mark: str = "",
    ) -> None:
        """Write a small real checkpoint now."""
        self._write(filepath, storage_options, weights_only=weights_only, mark=mark)

    def request_save(
        self,
        path: str | PathLike[str],
        *,
        weights_only: bool = False,
        owner: CallbackBase | None = None,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        mark: str = "",
        write: Callable[[str], object] | None = None,
    ) -> None:
        """Write now the checkpoint that the loop writes at a boundary, and notify the owner."""
        if write is None:
            self._write(path, None, weights_only=weights_only, mark=mark)
        else:
            write(str(path))
        if owner is not None:
            owner.on_saved(str(path))

    def _write(self, path: str | PathLike[str], storage_options: Any, *, weights_only: bool, mark: str) -> None:
        header = Header.of_new_run().next(self.global_step, self.current_epoch, weights_only=weights_only)
        tree = {"epoch": self.current_epoch, "global_step": self.global_step, "state_dict": {}}
        if "://" not in str(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.checkpoint_io.save_checkpoint({**header._replace(mark=mark).entry(), **tree}, path, storage_options)
        self.saved.append(str(path))

    def remove_checkpoint(self, path: str | PathLike[str]) -> None:
        """Delete a checkpoint now."""
        self.checkpoint_io.remove_checkpoint(path)
        self.removed.append(str(path))

    def window_of(self, epoch: int) -> int:
        """Return how many batches make an optimizer step in ``epoch``."""
        asked = self.accumulate_grad_batches
        if isinstance(asked, dict):
            return asked[max(start for start in asked if start <= epoch)]
        return 1 if asked == "auto" else asked

    def train_feed(self) -> Feed:
        """Return a feed that reads ``train_dataloader``."""
        shard, move = self.strategy.data_shard, self.strategy.to_device
        return make_feed(self.train_dataloader, stage="fit", shard=shard, transfer=move)

    def elapsed(self, unit: Unit, *, at_start: bool = False) -> float:
        """Return the attribute that counts this unit; 0.0 at the start, for time and for the part of the run."""
        if at_start:
            return 0.0
        counts = {"batches": self.total_batches, "steps": self.global_step, "epochs": self.current_epoch}
        return {**counts, "samples": self.global_samples, "tokens": self.global_tokens}.get(unit, 0.0)

    def trial(self, max_steps: int, **overrides: Any) -> Any:
        """Note the question; return None."""
        self.trials.append({"max_steps": max_steps, **overrides})

    def reload_train_loader(self) -> None:
        """Count the calls."""
        self.reloads += 1

    def _lt_ranks(self) -> Strategy | None:
        return None if self.world_size == 1 else self.strategy

    def call(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call an own event, as the real one does."""
        module = self.lightning_module
        for method in [getattr(callback, event, None) for callback in self.callbacks]:
            if callable(method):
                method(self, module, *args, **kwargs)
        if callable(own := getattr(module, event, None)):
            own(*args, **kwargs)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Keep the text."""
        self.printed.append(" ".join(map(str, args)))

    def mark_dirty(self) -> None:
        """Nothing to make again."""

    def init_module(self) -> AbstractContextManager[Any]:
        """Return an empty context."""
        return nullcontext()

    def all_loaders(self, stage: str) -> list[Any]:
        """Return the loaders set for ``stage``."""
        loaders = self.train_dataloader if stage == "train" else getattr(self, f"{stage}_dataloaders")
        return [] if loaders is None else list(loaders) if isinstance(loaders, (list, tuple)) else [loaders]


def _proof(trainer: FakeTrainer) -> TrainerAPI:
    """Let the type checker prove that the fake has the whole public face."""
    return trainer
