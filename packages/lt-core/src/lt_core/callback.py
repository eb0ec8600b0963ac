"""Callbacks: additions to a run that leave the module alone."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from lt_core._bases.callback import CallbackBase
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["Callback"]


class Callback(CallbackBase):
    """Base of callbacks: every hook is a no-op; a run looks up once which ones are overridden and calls only those.

    In each hook callbacks come before the module, in their order. A callback with ``monitors = True`` (it reads
    metrics: early stopping, checkpoints) comes after the module in ``on_train_epoch_end``, so that it sees what the
    module logs there.
    """

    def begin_anew(self, trainer: TrainerAPI) -> None:
        """Forget the fit before: one begins that does not continue it, by another Trainer, of another module or from a
        checkpoint, whose state is loaded next. Results of the last fit stay readable until then.
        """

    def take_over(self, trainer: TrainerAPI) -> None:
        """Apply changes that the run made in other processes, beside weights and metrics; its state is loaded."""

    # ---- the run -----------------------------------------------------------------------------------------------------

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Each run begins: ``stage`` is ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``."""

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Each run ends, also after an exception."""

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """``fit`` begins; module and optimizers are in place, a checkpoint is restored."""

    def on_fit_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """``fit`` ends."""

    def on_sanity_check_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The few validation batches before training begin."""

    def on_sanity_check_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The few validation batches before training are done."""

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        """An exception ends the run."""

    def on_interrupt(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """A signal ends ``fit`` at this boundary; a requested save is written before the end hooks run."""

    def on_save_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """A checkpoint is about to be written; plain data may be added to it."""

    def on_load_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """A checkpoint was read and is about to be restored."""

    # ---- training ----------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Training begins, after the sanity check."""

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Training ends."""

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """A training epoch begins."""

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """A training epoch ends; metrics of the epoch are in ``trainer.callback_metrics``."""

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> Any:
        """A batch is on the device; return -1 to skip the rest of the epoch."""

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A batch is done; ``outputs`` is the result of ``training_step``, gradients are still there."""

    def on_before_zero_grad(self, trainer: TrainerAPI, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Gradients of ``optimizer`` are about to be cleared."""

    def on_before_backward(self, trainer: TrainerAPI, pl_module: LightningModule, loss: Tensor) -> None:
        """Backward of ``loss`` (shape ``()``, divided by the window) is about to run."""

    def on_after_backward(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Backward has run; gradients are not unscaled and not clipped yet."""

    def on_before_optimizer_step(self, trainer: TrainerAPI, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Gradients are unscaled, not clipped yet; the step comes next."""

    # ---- validation --------------------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Validation begins."""

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Validation ends."""

    def on_validation_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The loaders are about to be read."""

    def on_validation_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The loaders are read."""

    def on_validation_batch_start(
        self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """A validation batch is on the device."""

    def on_validation_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """A validation batch is done."""

    # ---- test --------------------------------------------------------------------------------------------------------

    def on_test_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Testing begins."""

    def on_test_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Testing ends."""

    def on_test_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The loaders are about to be read."""

    def on_test_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The loaders are read."""

    def on_test_batch_start(
        self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """A test batch is on the device."""

    def on_test_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """A test batch is done."""

    # ---- predict -----------------------------------------------------------------------------------------------------

    def on_predict_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Prediction begins."""

    def on_predict_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Prediction ends."""

    def on_predict_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The loaders are about to be read."""

    def on_predict_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The loaders are read."""

    def on_predict_batch_start(
        self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """A batch to predict is on the device."""

    def on_predict_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """A batch is predicted; ``outputs`` is the result of ``predict_step``."""
