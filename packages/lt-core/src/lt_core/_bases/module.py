"""The part of a user's module without a Trainer: steps, hooks, ``self.log``, hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Self

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling, is_dynamo_compiling
from torch.optim import Optimizer

from lt_core.data import DataSource
from lt_core.errors import LogError, warn
from lt_core.hparams import HyperparametersMixin
from lt_core.logging.recorder import Given, Recorder
from lt_core.optimizer import LightningOptimizer

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Batch = TypeVar("Batch", default=Any)  # a module that names no batch takes any

    class ByBatch(Generic[Batch]):
        pass

else:
    from typing import TypeVar

    Batch = TypeVar("Batch")

    class ByBatch:
        """Takes ``[Batch]`` without ``Generic`` among the parents, which may then stand before or after the module."""

        __class_getitem__ = classmethod(GenericAlias)


__all__ = ["ModuleBase"]


class ModuleBase(HyperparametersMixin, DataSource, nn.Module, ByBatch[Batch]):
    """The part of a ``LightningModule`` that knows no Trainer, so that a description of a Trainer can name it."""

    automatic_optimization: bool = True
    example_input_array: Any = None
    needs_closure: bool = False
    strict_loading: bool = True
    trains_without_loss: bool = False
    truncated_bptt_steps: int = 0
    _lt_has_weights: bool = False  # trained or loaded ones, which layers that are made anew would lose

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make an empty module; arguments are passed on to further parents."""
        super().__init__(*args, **kwargs)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def training_step(self, batch: Batch, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss of one batch: ``training_step(self, batch, batch_idx)``.

        Returns:
            A 0-dim tensor; or a dict with the key ``"loss"`` (and ``"loss_weight"``, the number of samples that a mean
            stands for, where windows are ragged); a dict of losses by optimizer's name; or None to skip the batch.
        """
        raise NotImplementedError("training_step is not defined")

    def validation_step(self, batch: Batch, *args: Any, **kwargs: Any) -> Any:
        """Evaluate one batch: ``validation_step(self, batch, batch_idx, dataloader_idx=0)``."""

    def test_step(self, batch: Batch, *args: Any, **kwargs: Any) -> Any:
        """Test one batch: ``test_step(self, batch, batch_idx, dataloader_idx=0)``."""

    def predict_step(self, batch: Batch, *args: Any, **kwargs: Any) -> Any:
        """Predict one batch: ``predict_step(self, batch, batch_idx, dataloader_idx=0)``; by default ``self(batch)``."""
        return self(batch)

    def configure_model(self) -> None:
        """Make big layers here rather than in ``__init__``: on the device, or sharded.

        It is called before each run: make layers once (``if getattr(self, "net", None) is None:``). Where they are made
        anew, trained parameters and buffers are kept, but for a fit that begins anew; a warning says either.
        """

    def configure_optimizers(self) -> Any:
        """Return the optimizers of the module.

        An optimizer; a list of them; a dict ``{"optimizer": ..., "lr_scheduler": scheduler or config}``; two lists
        (optimizers, schedulers); a dict of named optimizers (or of such dicts); or None. A scheduler's config has the
        keys ``scheduler, interval ("epoch" or "step"), frequency, monitor, strict, name, reduce_on_plateau``.
        """
        raise NotImplementedError("configure_optimizers is not defined")

    # ---- optimization ------------------------------------------------------------------------------------------------

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients of ``loss``, shape ``()``, scaled already where the precision scales."""
        loss.backward(*args, **kwargs)  # type: ignore[no-untyped-call]

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Optimizer | LightningOptimizer, optimizer_closure: Any = None
    ) -> None:
        """Take an optimizer's step; ``optimizer_closure`` runs step, zero_grad and backward and must be called once."""
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Optimizer) -> None:
        """Clear the gradients of ``optimizer``, at a window's first micro-batch."""
        optimizer.zero_grad()

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Step a scheduler; ``metric`` is the monitored value, or None where it monitors nothing."""
        scheduler.step() if metric is None else scheduler.step(metric)

    def count_tokens(self, batch: Batch) -> int:
        """Return how many tokens a training batch has, on this rank; define it for durations in tokens.

        A number that follows from the batch's shape (``batch["input_ids"].numel()``) waits for no device; a sum over a
        mask on a GPU does. On several ranks the counts are added up after each batch.
        """
        raise NotImplementedError("count_tokens(self, batch)")

    def freeze(self) -> Self:
        """Turn gradients off for all parameters and go to eval mode; return the module."""
        return self.requires_grad_(False).eval()

    def unfreeze(self) -> Self:
        """Turn gradients on for all parameters and go to train mode; return the module."""
        return self.requires_grad_(True).train()

    # ---- logging -----------------------------------------------------------------------------------------------------

    def log(
        self,
        name: str,
        value: Any,
        prog_bar: bool = False,
        logger: bool | None = None,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        reduce_fx: Any = "mean",
        enable_graph: bool = False,
        sync_dist: bool | None = None,
        sync_dist_group: Any = None,
        add_dataloader_idx: bool = True,
        batch_size: int | None = None,
        metric_attribute: str | None = None,
        rank_zero_only: bool = False,
    ) -> None:
        """Log a number, a tensor of one element, or a metric object.

        Args:
            name: key in the loggers and in ``trainer.callback_metrics``; with both ``on_step`` and ``on_epoch`` it
                shows as ``name_step`` and ``name_epoch``; with several loaders ``/dataloader_idx_N`` is added.
            value: the value to log; outside of a Trainer's run a warning says that nothing is logged.
            prog_bar: show it in the progress bar.
            logger: send it to the loggers; default True.
            on_step: send the value of this step (every ``log_every_n_steps`` steps); default True in training batches.
            on_epoch: send the value of the epoch; default True everywhere else.
            reduce_fx: how an epoch's values become one: ``"mean"`` (weighted by batch size), ``"sum"``, ``"min"`` or
                ``"max"``, or torch's function of this name.
            enable_graph: kept for compatibility; values are always detached.
            sync_dist: True reduces step values over ranks too (for loggers, and for hooks after a batch that read
                ``trainer.callback_metrics``), and demands the key on every rank; False leaves even epoch values as
                each rank's own; by default epoch values are reduced (sums and counts) and step values are rank 0's.
            sync_dist_group: kept for compatibility; the run's group is used.
            add_dataloader_idx: False to leave out ``/dataloader_idx_N``; epoch values must then differ by name.
            batch_size: weight of this value in an epoch's mean; default: the first dimension that the batch's tensors
                share, else how many samples the loader's sampler chose for it.
            metric_attribute: kept for compatibility; metric objects are found by themselves.
            rank_zero_only: only rank 0 logs it.

        Raises:
            LogError: for a value, name or place that cannot be logged; names hook and key.
        """
        given = (
            prog_bar,
            logger,
            on_step,
            on_epoch,
            reduce_fx,
            enable_graph,
            sync_dist,
            sync_dist_group,
            add_dataloader_idx,
            metric_attribute,
            rank_zero_only,
        )
        recorder: Recorder | None = self.__dict__.get("_lt_recorder")
        if recorder is None or (rank_zero_only and recorder.rank):
            if recorder is None and not is_compiling():
                warn(
                    f"self.log({name!r}, ...) outside of a Trainer's run: nothing is logged. Have the step called "
                    "by trainer.fit, validate, test or predict.",
                    code="LT528",
                )
            return
        if is_dynamo_compiling():
            from lt_core.logging.compiled import log_from_the_graph

            log_from_the_graph(recorder, name, value, given, batch_size)
            return
        slots = recorder.slots
        slot: Any = slots.get(name) if slots is not None else None
        if slot is None or slot.given != given:
            slot = recorder.resolve(name, Given(*given), batch_size)
        slot.add(value, batch_size)

    def log_dict(self, dictionary: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        """Log each item of ``dictionary`` (or of a ``MetricCollection``) by :meth:`log`, with the same settings.

        Raises:
            LogError: for an argument without items, and as in :meth:`log`.
        """
        collection: Any = dictionary
        if not hasattr(collection, "items"):
            raise LogError(
                f"self.log_dict: expected names and values (a dict, a collection), got {type(dictionary).__name__}. "
                "Log one value by self.log(name, value).",
                code="LT512",
            )
        items = collection.items(keep_base=False) if hasattr(collection, "compute_groups") else collection.items()
        for name, value in items:
            self.log(name, value, *args, **kwargs)

    # ---- where it is -------------------------------------------------------------------------------------------------

    @property
    def on_gpu(self) -> bool:
        """Whether the module is on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def device(self) -> torch.device:
        """The device of the module's parameters."""
        known: torch.device | None = self.__dict__.get("_device")
        if known is None:
            known = self.__dict__["_device"] = _first_tensor(self).device
        return known

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the module's parameters."""
        return _first_tensor(self).dtype

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        moved: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.__dict__.pop("_device", None)
        return moved

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._lt_has_weights = True

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """``fit`` begins; module and optimizers are in place, a checkpoint is restored."""

    def on_fit_end(self) -> None:
        """``fit`` ends."""

    def on_train_start(self) -> None:
        """Training begins, after the sanity check."""

    def on_train_end(self) -> None:
        """Training ends."""

    def on_train_epoch_start(self) -> None:
        """A training epoch begins."""

    def on_train_epoch_end(self) -> None:
        """A training epoch ends."""

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> Any:
        """A batch is on the device; return -1 to skip the rest of the epoch."""

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """A batch is done; gradients are still there."""

    def on_before_zero_grad(self, optimizer: Optimizer) -> None:
        """Gradients of ``optimizer`` are about to be cleared."""

    def on_before_backward(self, loss: Tensor) -> None:
        """Backward of ``loss`` (shape ``()``, divided by the window) is about to run."""

    def on_after_backward(self) -> None:
        """Backward has run; gradients are not unscaled and not clipped yet."""

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Gradients are unscaled, not clipped yet; the step comes next."""

    def on_validation_model_zero_grad(self) -> None:
        """Training gradients are freed before a validation; override to keep them."""
        self.zero_grad()

    def on_validation_model_eval(self) -> None:
        """Go to eval mode for validation."""
        self.eval()

    def on_validation_model_train(self) -> None:
        """Go back after validation: each submodule to the mode that it had."""

    def on_validation_start(self) -> None:
        """Validation begins."""

    def on_validation_end(self) -> None:
        """Validation ends."""

    def on_validation_epoch_start(self) -> None:
        """The validation loaders are about to be read."""

    def on_validation_epoch_end(self) -> None:
        """The validation loaders are read."""

    def on_validation_batch_start(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A validation batch is on the device."""

    def on_validation_batch_end(self, outputs: Any, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A validation batch is done."""

    def on_test_model_eval(self) -> None:
        """Go to eval mode for testing."""
        self.eval()

    def on_test_model_train(self) -> None:
        """Go back after testing: each submodule to the mode that it had."""

    def on_test_start(self) -> None:
        """Testing begins."""

    def on_test_end(self) -> None:
        """Testing ends."""

    def on_test_epoch_start(self) -> None:
        """The test loaders are about to be read."""

    def on_test_epoch_end(self) -> None:
        """The test loaders are read."""

    def on_test_batch_start(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A test batch is on the device."""

    def on_test_batch_end(self, outputs: Any, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A test batch is done."""

    def on_predict_model_eval(self) -> None:
        """Go to eval mode for prediction."""
        self.eval()

    def on_predict_model_train(self) -> None:
        """Go back after prediction: each submodule to the mode that it had."""

    def on_predict_start(self) -> None:
        """Prediction begins."""

    def on_predict_end(self) -> None:
        """Prediction ends."""

    def on_predict_epoch_start(self) -> None:
        """The loaders are about to be read."""

    def on_predict_epoch_end(self) -> None:
        """The loaders are read."""

    def on_predict_batch_start(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A batch to predict is on the device."""

    def on_predict_batch_end(self, outputs: Any, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A batch is predicted."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A checkpoint is about to be written; plain data may be added to it."""

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A checkpoint was read and is about to be restored."""

    def on_exception(self, exception: BaseException) -> None:
        """An exception ends the run."""


def _first_tensor(module: nn.Module) -> Tensor:
    return next(chain(module.parameters(), module.buffers()), torch.empty(()))
