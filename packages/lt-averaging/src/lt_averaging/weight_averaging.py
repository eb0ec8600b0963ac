"""Averages the weights while training, validates and saves the average."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from lt_averaging.averaged_weights import AveragedWeights, Ended, as_device, plain_name
from lt_callbacks.arguments import whole
from lt_callbacks.monitored import is_cut_short
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.duration import UNITS, Duration, Every
from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["EMAWeightAveraging", "WeightAveraging"]


class WeightAveraging(Callback):
    """Keeps an average of the weights: validation and checkpoints use it, training goes on with the weights.

    A checkpoint's ``state_dict`` is the average, so that ``test(ckpt_path=...)`` and ``load_from_checkpoint`` get it;
    the present weights are in ``current_model_state``, and a resume continues with both, exactly. When training ends,
    the module has the average. Override :meth:`should_update` to choose when the average is updated. Before the first
    update there is no average: validation and checkpoints then use the weights.

    An update with ``every="1 epochs"`` comes after the epoch's last step: the epoch's validation, and the checkpoint
    that its metric ranks, have the weights averaged through that epoch. One that ``should_update(epoch_idx=...)`` asks
    for comes at the epoch's end, after its validation, as in Lightning: that validation has the average of the epochs
    before, and a checkpoint of the epoch's end already the new one.

    Args:
        device: where the average lives; None: on the module's device.
        use_buffers: average floating-point buffers too; else they are copied.
        every: any duration between two updates (``"1e6 tokens"``), each after an optimizer step; default: each step.
        kwargs: ``avg_fn`` or ``multi_avg_fn`` of ``torch.optim.swa_utils``; by default all updates weigh the same.

    Raises:
        ConfigError: for any other argument.
    """

    changes_weights = True
    before = ("ModelPruning",)  # which masks what is averaged

    @checks_arguments
    def __init__(
        self,
        device: torch.device | str | int | None = None,
        use_buffers: bool = True,
        *,
        every: Duration | timedelta | str | None = None,
        **kwargs: Any,
    ) -> None:
        for name, given in kwargs.items():
            if name not in ("avg_fn", "multi_avg_fn") or not (given is None or callable(given)):
                raise ConfigError(
                    f"{type(self).__name__}({name}={given!r:.60}): expected device, use_buffers, every, or a function "
                    "as avg_fn or multi_avg_fn.",
                    code="LT178",
                )
        number = isinstance(device, float) and isinstance(self, EMAWeightAveraging)
        instead = f" Is it the decay? {type(self).__name__}(decay={device!r})." if number else ""
        self._device = as_device(type(self).__name__, device, instead)
        self._use_buffers = use_buffers
        self._lt_given_functions = kwargs
        self._lt_average: AveragedWeights | None = None
        self._lt_swapped = False
        self._lt_loaded: tuple[dict[str, Tensor], int] | None = None
        self._lt_ended: Ended | None = None
        self._lt_forget_fit()
        self._lt_every = None if every is None else Duration.of(every, UNITS, f"{type(self).__name__}(every={{}})")
        self._lt_multiples: Every | None = None

    def _lt_forget_fit(self) -> None:
        self._latest_update_step = 0
        self._latest_update_epoch = -1
        self._lt_reached: int | None = None  # multiples, before a resume
        self._lt_looked_at = 0  # optimizer step

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_forget_fit()
        self._lt_loaded = self._lt_ended = None

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Return whether to update the average now.

        Args:
            step_idx: number of the optimizer step just taken, from 0; None at an epoch's end.
            epoch_idx: number of the epoch just ended, its validation too, from 0; None after a step.
        """
        return step_idx is not None

    def average_functions(self) -> dict[str, Any]:
        """Return ``avg_fn`` or ``multi_avg_fn``; made when a run begins, as such functions cannot be pickled."""
        return self._lt_given_functions

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        state = {"latest_update_step": self._latest_update_step, "latest_update_epoch": self._latest_update_epoch}
        if self._lt_multiples is None:
            return state
        return state | {
            "every": str(self._lt_every),
            "reached": self._lt_multiples.reached,
            "looked_at": self._lt_looked_at,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._latest_update_step = int(state_dict["latest_update_step"])
        self._latest_update_epoch = int(state_dict.get("latest_update_epoch", -1))  # Lightning's files lack it
        if state_dict.get("every") == str(self._lt_every):
            self._lt_reached, self._lt_looked_at = int(state_dict["reached"]), int(state_dict["looked_at"])

    def on_save_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the average where loaders look for the weights, and the present weights beside it."""
        if self._lt_average is None:
            return
        checkpoint["averaging_state"] = {"n_averaged": torch.tensor(self._lt_average.num_averaged)}
        if not self._lt_average.num_averaged:
            return
        other = self._lt_other_weights(trainer, checkpoint["state_dict"])
        here, there = (other, checkpoint["state_dict"]) if not self._lt_swapped else (checkpoint["state_dict"], other)
        checkpoint["state_dict"], checkpoint["current_model_state"] = here, there

    def on_load_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Take the average out, and let the module have the weights that training goes on with."""
        trained = checkpoint.get("current_model_state", checkpoint["state_dict"])
        count = int(checkpoint["averaging_state"]["n_averaged"]) if "averaging_state" in checkpoint else -1
        if not count:  # Lightning, and lt 0.1, put the first weights in the place of an average
            checkpoint["state_dict"] = trained
        elif trainer.stage != "fit":
            return
        elif count < 0 or trained is checkpoint["state_dict"]:
            warn(
                f"The checkpoint was written without {type(self).__name__}: the average begins with its weights.",
                code="LT634",
            )
        else:
            self._lt_loaded, checkpoint["state_dict"] = (checkpoint["state_dict"], count), trained

    # ---- the run -----------------------------------------------------------------------------------------------------

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Begin with the present weights, with the checkpoint's average, or where the last fit ended."""
        self._lt_average = AveragedWeights(
            pl_module, device=self._device, use_buffers=self._use_buffers, **self.average_functions()
        )
        self._lt_swapped = False
        if self._lt_ended is not None:
            self._lt_ended.take_back(self._lt_average, pl_module)
            self._lt_ended = None
        if self._lt_loaded is None:
            return
        tensors, count = self._lt_loaded
        self._lt_loaded = None
        if trainer.strategy.capabilities.sharded_parameters and trainer.model is not None:
            trainer.strategy.load_module_state(trainer.model, tensors)
            self._lt_average.swap()
            self._lt_average.num_averaged = count
        else:
            self._lt_average.load(tensors, count)

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        due = self._lt_every is None or self._lt_is_reached(trainer, self._lt_every)
        if due and step > self._latest_update_step and self.should_update(step_idx=step - 1):
            self._latest_update_step = step
            self._lt_update()

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        epoch = trainer.current_epoch
        if is_cut_short(trainer):
            return
        if epoch > self._latest_update_epoch and self.should_update(epoch_idx=epoch):
            self._latest_update_epoch = epoch
            self._lt_update()

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Validate the average; the module's ``on_validation_epoch_end`` sees it too."""
        self._lt_swap(True)

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_swap(False)

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        self._lt_swap(False)

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_swap(False)
        if self._lt_average is None or not self._lt_average.num_averaged:
            return
        if not trainer.interrupted:
            self._lt_ended = Ended.of(self._lt_average, trainer, pl_module)
        elif not trainer.strategy.capabilities.sharded_parameters:  # a fit that continues goes on with it
            self._lt_loaded = self._lt_average.tensors(), self._lt_average.num_averaged

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_swap(False)
        self._lt_average = self._lt_multiples = None

    def _lt_is_reached(self, trainer: TrainerAPI, every: Duration) -> bool:
        """Return whether a multiple was reached, where an optimizer step is done that was not there before."""
        if self._lt_multiples is None or not self._lt_multiples.belongs_to(trainer):
            self._lt_multiples = Every(every, trainer)
            if self._lt_reached is not None:
                self._lt_multiples.reached, self._lt_reached = self._lt_reached, None
        if trainer.global_step == self._lt_looked_at:
            return False
        self._lt_looked_at = trainer.global_step
        return self._lt_multiples.is_due()

    def _lt_update(self) -> None:
        if self._lt_average is not None:
            self._lt_average.update()

    def _lt_swap(self, wanted: bool) -> None:
        if self._lt_average is not None and self._lt_average.num_averaged and self._lt_swapped != wanted:
            self._lt_average.swap()
            self._lt_swapped = wanted

    def _lt_other_weights(self, trainer: TrainerAPI, present: dict[str, Any]) -> dict[str, Any]:
        """Return the weights that the module does not have now, in the layout of a state dict."""
        assert self._lt_average is not None
        if not trainer.strategy.capabilities.sharded_parameters or trainer.model is None:
            average = self._lt_average.tensors()
            return {name: average.get(plain_name(name, present), value) for name, value in present.items()}
        self._lt_average.swap()
        gathered = trainer.strategy.module_state(trainer.model)
        other = {name: value.clone() if isinstance(value, Tensor) else value for name, value in gathered.items()}
        self._lt_average.swap()
        return other


class EMAWeightAveraging(WeightAveraging):
    """Keeps an exponential moving average of the weights.

    Args:
        device: where the average lives; None: on the module's device.
        use_buffers: average floating-point buffers too; else they are copied.
        decay: share of the old average in the new one, 0 to 1.
        update_every_n_steps: optimizer steps between two updates.
        update_starting_at_step: first optimizer step (from 0) with an update; None: from the start.
        update_starting_at_epoch: update at the end of each epoch from this one on (from 0), after its validation;
            None: not by epochs.
        warmup: let the n-th update (from 0) have the decay ``min(decay, (1 + n) / (10 + n))``, so that the first
            weights are soon forgotten (as ``tf.train.ExponentialMovingAverage`` with ``num_updates``).
        every: in place of ``update_every_n_steps``, any duration between two updates: ``"1e6 tokens"``; ``"1 epochs"``
            updates before the epoch's validation.

    Raises:
        ConfigError: for a decay outside of 0 to 1, wrong counts, or two of how often.
    """

    @checks_arguments
    def __init__(
        self,
        device: torch.device | str | int | None = None,
        use_buffers: bool = True,
        decay: float = 0.999,
        update_every_n_steps: int = 1,
        update_starting_at_step: int | None = None,
        update_starting_at_epoch: int | None = None,
        warmup: bool = False,
        every: Duration | timedelta | str | None = None,
    ) -> None:
        if not 0.0 <= decay <= 1.0:
            raise ConfigError(f"EMAWeightAveraging(decay={decay!r}): expected a number from 0 to 1.", code="LT174")
        super().__init__(device, use_buffers, every=every)
        self.decay = decay
        who = "EMAWeightAveraging"
        if every is not None and update_every_n_steps != 1:
            asked = f"update_every_n_steps={update_every_n_steps!r}, every={every!r}"
            raise ConfigError(f"{who}({asked}): expected one of them. Leave one out.", code="LT178")
        self.update_every_n_steps = whole(who, "update_every_n_steps", update_every_n_steps, 1)
        if update_starting_at_step is not None:
            whole(who, "update_starting_at_step", update_starting_at_step)
        if update_starting_at_epoch is not None:
            whole(who, "update_starting_at_epoch", update_starting_at_epoch)
        self.update_starting_at_step = update_starting_at_step
        self.update_starting_at_epoch = update_starting_at_epoch
        self.warmup = warmup

    def average_functions(self) -> dict[str, Any]:
        if self.warmup:
            return {"multi_avg_fn": self._lt_warm_average}
        return {"multi_avg_fn": get_ema_multi_avg_fn(self.decay)}  # type: ignore[no-untyped-call]

    def _lt_warm_average(self, means: Any, presents: Any, count: Tensor) -> None:
        assert self._lt_average is not None
        done = self._lt_average.num_averaged  # not count, which is on the device
        average: Callable[..., None] = get_ema_multi_avg_fn(min(self.decay, (1 + done) / (10 + done)))  # type: ignore[no-untyped-call]
        average(means, presents, count)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        if step_idx is not None:
            return step_idx >= (self.update_starting_at_step or 0) and step_idx % self.update_every_n_steps == 0
        first = self.update_starting_at_epoch
        return epoch_idx is not None and first is not None and epoch_idx >= first
