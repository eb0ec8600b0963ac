"""Finds the largest batch size that fits in memory."""

from __future__ import annotations

import gc
from typing import Any

import torch

from lt_callbacks.arguments import choice, number, whole
from lt_core.arguments import checks_arguments
from lt_core.batch import batch_size_of, is_out_of_memory
from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI
from lt_tuning.tuned_attribute import TunedAttribute, skipped

__all__ = ["BatchSizeFinder"]


class BatchSizeFinder(Callback):
    """Tries growing batch sizes on a snapshot before training, and trains with the largest that fits in memory.

    Each trial takes a few training steps; weights, optimizers and generators are put back exactly. The size is set as
    the module's or datamodule's ``batch_size`` (or the same in ``hparams``), from which ``train_dataloader`` must make
    its loader. Several ranks agree on it. A run that resumes from a checkpoint keeps its size.

    ``validate``, ``test`` and ``predict`` search likewise, for their own loaders, and leave the size that ``fit`` found
    as it was. Validation inside ``fit`` searches nothing.

    Args:
        mode: ``"power"`` doubles until memory runs out; ``"binsearch"`` then halves the interval down to the size.
        steps_per_trial: batches tried with each size.
        init_val: first size.
        max_trials: sizes tried at most.
        batch_arg_name: the attribute to set.
        margin: share of the found size to leave free with ``"binsearch"``, 0.0 to 1.0.
        max_val: largest size to try.

    Attributes:
        optimal_batch_size: the result of the last search; None before.

    Raises:
        ConfigError: for wrong values; at the start without the attribute, or where it changes no batch (in an
            evaluation that is a warning); when not even the first size fits.
    """

    SUPPORTED_MODES = ("power", "binsearch")

    @checks_arguments
    def __init__(
        self,
        mode: str = "power",
        steps_per_trial: int = 3,
        init_val: int = 2,
        max_trials: int = 25,
        batch_arg_name: str = "batch_size",
        margin: float = 0.05,
        max_val: int = 8192,
    ) -> None:
        who = "BatchSizeFinder"
        self._mode = choice(who, "mode", mode, self.SUPPORTED_MODES)
        self._steps_per_trial = whole(who, "steps_per_trial", steps_per_trial, 1)
        self._init_val = whole(who, "init_val", init_val, 1)
        self._max_trials = whole(who, "max_trials", max_trials, 1)
        self._batch_arg_name = batch_arg_name
        self._margin = number(who, "margin", margin, 0.0)
        self._max_val = whole(who, "max_val", max_val, init_val)
        self.optimal_batch_size: int | None = None
        self._lt_of_fit: tuple[TunedAttribute, Any] | None = None  # the result of an evaluation

    def state_dict(self) -> dict[str, Any]:
        return {} if self.optimal_batch_size is None else {"optimal_batch_size": self.optimal_batch_size}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimal_batch_size = int(state_dict["optimal_batch_size"])

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.optimal_batch_size = None

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if trainer.global_step == 0 and trainer.batch_idx == 0:
            self.scale_batch_size(trainer, pl_module)

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Search before an evaluation of its own."""
        if trainer.stage == "fit":
            return
        attribute = TunedAttribute("BatchSizeFinder", trainer, [self._batch_arg_name])
        if self._lt_fitted_in:
            self._lt_of_fit = attribute, attribute.get()
        try:
            self.scale_batch_size(trainer, pl_module)
        except _UnchangedError as error:
            warn(f"{error.message} They are read as they are.", code="LT181")

    on_test_start = on_predict_start = on_validation_start

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        if self._lt_of_fit is not None:
            attribute, size = self._lt_of_fit
            attribute.set(size)
            self._lt_of_fit = None

    def take_over(self, trainer: TrainerAPI) -> None:
        """Set the attribute in this process too, where the search ran in another one."""
        if self.optimal_batch_size is not None:
            TunedAttribute("BatchSizeFinder", trainer, [self._batch_arg_name]).set(self.optimal_batch_size)

    def scale_batch_size(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Search now: in ``on_fit_start``, or as an evaluation starts."""
        if skipped(self, trainer):
            return
        attribute = TunedAttribute("BatchSizeFinder", trainer, [self._batch_arg_name])
        before = attribute.get()
        try:
            found = self._lt_search(trainer, attribute)
        except BaseException:
            attribute.set(before)
            raise
        attribute.set(found)
        trainer.reload_train_loader()
        self.optimal_batch_size = found
        trainer.print(f"Batch size set to {found} ({attribute.name})")

    def _lt_search(self, trainer: TrainerAPI, attribute: TunedAttribute) -> int:
        good, bad, size = 0, 0, self._init_val
        for _ in range(self._max_trials):
            seen = self._lt_try(trainer, attribute, size)
            if seen is None:
                bad = size
            elif seen < size:  # the data set has no more samples
                return max(seen, good)
            else:
                good = size
            if bad and (self._mode == "power" or bad - good <= 1):
                break
            if good >= self._max_val:
                break
            size = (good + bad) // 2 if bad else min(good * 2, self._max_val)
        if not good:
            raise ConfigError(
                f"BatchSizeFinder: not even batches of {self._init_val} fit in memory. Take a smaller init_val, "
                "another precision, or a smaller model.",
                code="LT181",
            )
        return good if self._mode == "power" else max(int(good * (1 - self._margin)), 1)

    def _lt_try(self, trainer: TrainerAPI, attribute: TunedAttribute, size: int) -> int | None:
        """Return how many samples the first batch had, or None where memory ran out on any rank."""
        attribute.set(size)
        watch = _Watch(agree=trainer.world_size > 1)
        steps = self._steps_per_trial
        ran_out = False
        try:
            if watch.agree:  # one window: no rank waits for gradients of a rank that has run out of memory
                trainer.trial(1, callbacks=[watch], accumulate_grad_batches=max(steps, 2))
            else:
                trainer.trial(steps, callbacks=[watch], accumulate_grad_batches=1)
        except _OtherRankRanOutError:
            ran_out = True
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            ran_out = True
            if watch.agree:
                watch.say(trainer, fits=False)
        if ran_out:
            _free_memory()
        if not ran_out and watch.samples is not None and watch.samples > size:
            method = {"fit": "train", "validate": "val"}.get(stage := str(trainer.stage), stage)
            raise _UnchangedError(
                f"BatchSizeFinder set {attribute.name}={size}, and the batches still had {watch.samples} samples. Make "
                f"the loader in {method}_dataloader from self.{attribute.name}; loaders given to {stage} cannot be "
                "changed.",
                code="LT181",
            )
        return None if ran_out else (watch.samples if watch.samples is not None else size)


class _UnchangedError(ConfigError):
    """The attribute changes no batch."""


class _OtherRankRanOutError(Exception):
    """Another rank has run out of memory in this batch."""


class _Watch(Callback):
    """Notes the size of the first batch; after each batch the ranks agree on whether it fitted."""

    def __init__(self, agree: bool) -> None:
        self.agree = agree
        self.samples: int | None = None

    def on_train_batch_start(
        self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if self.samples is None:
            self.samples = batch_size_of(batch)

    on_validation_batch_start = on_test_batch_start = on_predict_batch_start = on_train_batch_start

    def on_train_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self.agree and not self.say(trainer, fits=True):
            raise _OtherRankRanOutError

    on_validation_batch_end = on_test_batch_end = on_predict_batch_end = on_train_batch_end

    def say(self, trainer: TrainerAPI, fits: bool) -> bool:
        """Return whether it fitted on all ranks; all call this."""
        strategy = trainer.strategy
        return bool(strategy.all_reduce(torch.tensor(float(fits), device=strategy.device), "min") > 0)


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
