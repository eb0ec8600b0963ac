"""Stochastic weight averaging (https://arxiv.org/abs/1803.05407)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lt_averaging.averaged_weights import AveragedWeights, AverageFunction, Ended, as_device
from lt_callbacks.arguments import choice, whole
from lt_callbacks.monitored import is_cut_short
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError, ConfigTypeError
from lt_core.module import LightningModule
from lt_core.seed import preserve_generators
from lt_core.trainer import TrainerAPI

__all__ = ["StochasticWeightAveraging"]

_BatchNorm = nn.modules.batchnorm._BatchNorm


class StochasticWeightAveraging(Callback):
    """Averages the weights at the end of each late epoch while the learning rate is held at ``swa_lrs``.

    When training ends, the module has the average, and the statistics of its batch-norm layers are taken anew in one
    pass over the training data, as ``torch.optim.swa_utils.update_bn`` does. Checkpoints saved while training hold the
    present weights, and in this callback's state the average, so that a resume is exact.

    From the first averaged epoch on the learning rate moves from where it stands to ``swa_lrs``, whatever the
    scheduler says.

    Args:
        swa_lrs: the learning rate to hold, or one for each parameter group; None holds those at which the groups stand
            when averaging begins.
        swa_epoch_start: first epoch to average, from 1; or that number as a share of ``max_epochs``.
        annealing_epochs: epochs in which the learning rate moves to ``swa_lrs``.
        annealing_strategy: ``"cos"`` or ``"linear"``.
        avg_fn: averages one weight; default: the equal average.
        device: where the average lives; None: on the module's device.

    Raises:
        ConfigError: for wrong values; at the start for several optimizers, or batch norm with manual optimization.
    """

    before = ("ModelPruning",)  # which masks what is averaged

    @checks_arguments
    def __init__(
        self,
        swa_lrs: float | list[float] | None,
        swa_epoch_start: float = 0.8,
        annealing_epochs: int = 10,
        annealing_strategy: str = "cos",
        avg_fn: AverageFunction | None = None,
        device: torch.device | str | None = torch.device("cpu"),
    ) -> None:
        who = "StochasticWeightAveraging"
        rates = swa_lrs if isinstance(swa_lrs, list) else [swa_lrs]
        sound = rates and all(isinstance(rate, (int, float)) and rate > 0 for rate in rates)
        if swa_lrs is not None and not sound:
            raise ConfigError(f"{who}(swa_lrs={swa_lrs!r}): expected a learning rate above 0, or a list.", code="LT178")
        whole_number = isinstance(swa_epoch_start, int) and swa_epoch_start >= 1
        if not whole_number and not (isinstance(swa_epoch_start, float) and 0 <= swa_epoch_start <= 1):
            raise ConfigError(
                f"{who}(swa_epoch_start={swa_epoch_start!r}): expected an epoch from 1, or a share from 0.0 to 1.0.",
                code="LT178",
            )
        self._swa_lrs = swa_lrs
        self._swa_epoch_start = swa_epoch_start
        self._annealing_epochs = whole(who, "annealing_epochs", annealing_epochs, 0)
        self._annealing_strategy = choice(who, "annealing_strategy", annealing_strategy, ("cos", "linear"))
        if avg_fn is not None and not callable(avg_fn):
            raise ConfigTypeError(f"{who}(avg_fn={avg_fn!r}): expected a function or None.", code="LT179")
        self._avg_fn = avg_fn
        self._device = as_device("StochasticWeightAveraging", device)
        self._lt_first_epoch = 0
        self._lt_average: AveragedWeights | None = None
        self._lt_rates: list[float] | None = None
        self._lt_rates_before: list[float] | None = None
        self._lt_loaded: dict[str, Any] | None = None
        self._lt_ended: Ended | None = None

    @property
    def swa_start(self) -> int:
        """First epoch, from 0, that is averaged."""
        return self._lt_first_epoch

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the average, how many epochs are in it, and the learning rates from which annealing began."""
        average = self._lt_average
        if average is None:
            return self._lt_loaded or {}
        return {
            "n_averaged": average.num_averaged,
            "average_model_state": average.tensors() if average.num_averaged else {},
            "rates_before": self._lt_rates_before,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._lt_loaded = state_dict
        self._lt_rates_before = state_dict.get("rates_before")

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_rates_before = self._lt_loaded = self._lt_ended = None

    # ---- the run -----------------------------------------------------------------------------------------------------

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Check that the run can be averaged, and find the first epoch to average."""
        self._lt_check(trainer, pl_module)
        start = self._swa_epoch_start
        if isinstance(start, float):
            start = int((trainer.max_epochs or 0) * start)
        self._lt_first_epoch = max(start - 1, 0)
        self._lt_average = AveragedWeights(pl_module, device=self._device, use_buffers=False, avg_fn=self._avg_fn)
        if self._lt_loaded is not None:
            self._lt_average.load(self._lt_loaded["average_model_state"], int(self._lt_loaded["n_averaged"]))
            self._lt_loaded = None
        if self._lt_ended is not None:
            self._lt_ended.take_back(self._lt_average, pl_module)
            self._lt_ended = None
        self._lt_set_epoch(trainer)

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_set_epoch(trainer)

    def on_before_optimizer_step(self, trainer: TrainerAPI, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Hold the learning rate, which a scheduler may have moved."""
        if self._lt_rates is not None:
            for group, rate in zip(optimizer.param_groups, self._lt_rates, strict=False):
                group["lr"] = rate

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        late = trainer.current_epoch >= self._lt_first_epoch and not is_cut_short(trainer)
        if self._lt_average is not None and late:
            self._lt_average.update()

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Give the module the average, and its batch-norm layers fresh statistics."""
        if self._lt_average is None or not self._lt_average.num_averaged:
            return
        if trainer.interrupted:
            self._lt_loaded = self.state_dict()  # a fit that continues goes on with it
            return
        self._lt_ended = Ended.of(self._lt_average, trainer, pl_module)
        if any(isinstance(layer, _BatchNorm) for layer in pl_module.modules()):
            _update_batch_norm(trainer, pl_module)

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_average = self._lt_rates = None

    def _lt_check(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        who = "StochasticWeightAveraging"
        if len(trainer.optimizers) != 1:
            raise ConfigError(f"{who} works with one optimizer, and there are {len(trainer.optimizers)}.", code="LT178")
        if isinstance(self._swa_epoch_start, float) and (trainer.max_epochs is None or trainer.max_epochs < 0):
            raise ConfigError(
                f"{who}(swa_epoch_start={self._swa_epoch_start}) is a share of max_epochs, which the Trainer lacks. "
                "Give it max_epochs, or give the first epoch as a whole number.",
                code="LT178",
            )
        groups = len(trainer.optimizers[0].param_groups)
        if isinstance(self._swa_lrs, list) and len(self._swa_lrs) != groups:
            raise ConfigError(
                f"{who}(swa_lrs={self._swa_lrs}): expected a learning rate for each of the {groups} parameter groups.",
                code="LT178",
            )
        normalises = any(isinstance(layer, _BatchNorm) for layer in pl_module.modules())
        if normalises and not pl_module.automatic_optimization:
            raise ConfigError(
                f"{who} runs training_step without gradients for fresh batch-norm statistics, which a module with "
                "automatic_optimization=False cannot do.",
                code="LT178",
            )

    def _lt_set_epoch(self, trainer: TrainerAPI) -> None:
        done = trainer.current_epoch - self._lt_first_epoch
        if done < 0:
            self._lt_rates = None
            return
        groups = trainer.optimizers[0].param_groups
        if self._lt_rates_before is None:
            self._lt_rates_before = [float(group["lr"]) for group in groups]
        share = self._lt_share(min(done / self._annealing_epochs, 1.0) if self._annealing_epochs else 1.0)
        before, held = self._lt_rates_before, self._swa_lrs
        if not isinstance(held, list):
            held = before if held is None else [held] * len(groups)
        self._lt_rates = [goal * share + rate * (1 - share) for goal, rate in zip(held, before, strict=False)]
        for group, rate in zip(groups, self._lt_rates, strict=False):
            group["lr"] = rate

    def _lt_share(self, progress: float) -> float:
        """Return how far the learning rate has moved to its goal, 0 to 1."""
        return progress if self._annealing_strategy == "linear" else (1 - math.cos(math.pi * progress)) / 2


def _update_batch_norm(trainer: TrainerAPI, module: LightningModule) -> None:
    """Take the statistics of batch norm anew: the cumulative average over one pass of training batches."""
    strategy = trainer.strategy
    norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    layers = [layer for layer in norms if layer.track_running_stats and layer.training]  # a frozen one keeps its own
    step = trainer.precision_plugin.wrap_step(_step_of(module))
    with preserve_generators(), trainer.recorder.muted(), _cumulative(layers), torch.no_grad():
        feed = trainer.train_feed()
        try:
            for index, batch in enumerate(feed):
                if index >= trainer.num_training_batches:
                    break
                step(batch, index)
        finally:
            feed.close()
    for layer in layers:
        for statistic in (layer.running_mean, layer.running_var):
            if statistic is not None:
                statistic.copy_(strategy.all_reduce(statistic, "mean"))


def _step_of(module: LightningModule) -> Callable[[Any, int], Any]:
    parameters = inspect.signature(module.training_step).parameters
    takes_index = len(parameters) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    return module.training_step if takes_index else lambda batch, _: module.training_step(batch)


@contextmanager
def _cumulative(layers: list[Any]) -> Iterator[None]:
    """Let batch-norm layers average all that they see, from nothing, with the whole module in training mode."""
    momenta = [(layer, layer.momentum, layer.training) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.training = True
    try:
        yield
    finally:
        for layer, momentum, training in momenta:
            layer.momentum, layer.training = momentum, training
