"""Finds a learning rate by a short run in which it grows (https://arxiv.org/abs/1506.01186)."""

from __future__ import annotations

import math
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any

from torch.optim import Optimizer

from lt_callbacks.arguments import choice, number, require_package, whole
from lt_callbacks.monitored import loss_of
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI
from lt_tuning.tuned_attribute import TunedAttribute, skipped

__all__ = ["LearningRateCurve", "LearningRateFinder"]

_SMOOTHING = 0.98


class LearningRateCurve:
    """The losses by learning rate, and which rate they suggest.

    Attributes:
        results: ``{"lr": [...], "loss": [...]}``, the smoothed loss after each step.
        mode: how the rate grew.
        lr_min: first rate.
        lr_max: last rate.
        num_training: steps asked for.
    """

    def __init__(self, mode: str, lr_min: float, lr_max: float, num_training: int) -> None:
        self.mode, self.lr_min, self.lr_max, self.num_training = mode, lr_min, lr_max, num_training
        self.results: dict[str, list[float]] = {"lr": [], "loss": []}

    def rate(self, step: int) -> float:
        """Return the learning rate of ``step``, from 0."""
        share = step / max(self.num_training - 1, 1)
        if self.mode == "linear":
            return self.lr_min + share * (self.lr_max - self.lr_min)
        return float(self.lr_min * (self.lr_max / self.lr_min) ** share)

    def suggestion(self, skip_begin: int = 10, skip_end: int = 1) -> float | None:
        """Return the rate at which the steepest tenth of the curve begins; None where too few losses are finite.

        Between two steps alone, noise of small batches would win.

        Args:
            skip_begin: steps at the start to leave out.
            skip_end: steps at the end to leave out.
        """
        index = self._steepest(skip_begin, skip_end)
        return None if index is None else self.results["lr"][index]

    def plot(self, suggest: bool = False, show: bool = False, ax: Any = None) -> Any:
        """Draw loss by learning rate with matplotlib; return the figure.

        Args:
            suggest: mark the suggestion.
            show: open a window.
            ax: axes to draw on; None: new ones.

        Raises:
            ConfigError: where matplotlib is not installed.
        """
        require_package("The plot", "matplotlib", "lt-tuning[plot]")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots() if ax is None else (ax.figure, ax)
        if ax is None and "inline" in plt.get_backend():
            vars(figure)["_ipython_display_"] = partial(_once_a_cell, figure, [])
        axes.plot(self.results["lr"], self.results["loss"])
        if self.mode == "exponential":
            axes.set_xscale("log")
        axes.set(xlabel="Learning rate", ylabel="Loss (smoothed)")
        index = self._steepest() if suggest else None
        if index is not None:
            rate = self.results["lr"][index]
            axes.plot(rate, self.results["loss"][index], "o", color="red", label=f"suggestion {rate:.3g}")
            axes.legend()
        if show:
            plt.show()
        return figure

    def _steepest(self, skip_begin: int = 10, skip_end: int = 1) -> int | None:
        losses = self.results["loss"]
        kept = [i for i in range(skip_begin, len(losses) - skip_end) if math.isfinite(losses[i])]
        if len(kept) < 2:
            return None
        width = min(max(len(losses) // 10, 1), len(kept) - 1)
        falls = [losses[kept[i + width]] - losses[kept[i]] for i in range(len(kept) - width)]
        return kept[falls.index(min(falls))]


def _once_a_cell(figure: Any, cells: list[int]) -> None:
    """Show a figure in a notebook: as the value of a cell, or as pyplot does at its end, but not twice in one cell."""
    cell = import_module("IPython").get_ipython().execution_count
    if cell not in cells:
        cells.append(cell)
        hook = vars(figure).pop("_ipython_display_")
        import_module("IPython.display").display(figure)
        vars(figure)["_ipython_display_"] = hook


class LearningRateFinder(Callback):
    """Tries growing learning rates on a snapshot before training, and trains with the one that suits best.

    Weights, optimizers and generators are put back exactly. The rate goes to the module's ``lr`` or ``learning_rate``
    (or the same in ``hparams``) and to the optimizer. A run that resumes from a checkpoint keeps its rate.

    Args:
        min_lr: first learning rate.
        max_lr: last learning rate.
        num_training_steps: optimizer steps in between.
        mode: ``"exponential"`` or ``"linear"`` growth.
        early_stop_threshold: stop when the loss exceeds the best one by this factor; None never.
        update_attr: take the suggestion over.
        attr_name: the attribute to set; default: ``lr`` or ``learning_rate``.

    Attributes:
        optimal_lr: the curve of the last search, with ``suggestion()`` and ``plot()``; None before.

    Raises:
        ConfigError: for wrong values; at the start without the attribute, or with several optimizers.
    """

    SUPPORTED_MODES = ("exponential", "linear")

    @checks_arguments
    def __init__(
        self,
        min_lr: float = 1e-8,
        max_lr: float = 1,
        num_training_steps: int = 100,
        mode: str = "exponential",
        early_stop_threshold: float | None = 4.0,
        update_attr: bool = True,
        attr_name: str = "",
    ) -> None:
        who = "LearningRateFinder"
        self._min_lr, self._max_lr = number(who, "min_lr", min_lr), number(who, "max_lr", max_lr)
        if not 0 < self._min_lr < self._max_lr:
            raise ConfigError(f"{who}(min_lr={min_lr}, max_lr={max_lr}): expected 0 < min_lr < max_lr.", code="LT172")
        self._num_training_steps = whole(who, "num_training_steps", num_training_steps, 2)
        self._mode = choice(who, "mode", mode, self.SUPPORTED_MODES)
        self._lt_threshold = early_stop_threshold
        self._update_attr = update_attr
        self._attr_name = attr_name
        self.optimal_lr: LearningRateCurve | None = None

    def state_dict(self) -> dict[str, Any]:
        return {} if self.optimal_lr is None else {"results": self.optimal_lr.results}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimal_lr = self._lt_new_curve()
        self.optimal_lr.results = {name: list(values) for name, values in state_dict["results"].items()}

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.optimal_lr = None

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if trainer.global_step == 0:
            self.lr_find(trainer, pl_module)

    def take_over(self, trainer: TrainerAPI) -> None:
        """Set the attribute in this process too, where the search ran in another one."""
        rate = self.optimal_lr.suggestion() if self.optimal_lr is not None else None
        if rate is not None and self._update_attr:
            self._lt_attribute(trainer).set(rate)

    def lr_find(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Search now: in ``on_fit_start``, or as an epoch starts."""
        if skipped(self, trainer):
            return
        if len(trainer.optimizers) != 1:
            raise ConfigError(
                f"LearningRateFinder works with one optimizer, and there are {len(trainer.optimizers)}.", code="LT181"
            )
        attribute = self._lt_attribute(trainer) if self._update_attr else None
        curve = self.optimal_lr = self._lt_new_curve()
        schedulers = trainer.lr_scheduler_configs
        held = schedulers[:]  # the sweep sets the rate; they may know of fewer steps than it takes
        schedulers[:] = map(_still, held)
        try:
            trainer.trial(self._num_training_steps, callbacks=[_Sweep(curve, self._lt_threshold)], new_loaders=False)
        finally:
            schedulers[:] = held
        if 0 < len(curve.results["lr"]) < self._num_training_steps:
            trainer.print(f"Learning-rate search ended after {len(curve.results['lr'])} steps: the loss diverged.")
        rate = curve.suggestion()
        if rate is None:
            warn(
                "LearningRateFinder found too few finite losses for a suggestion; the learning rate is unchanged. Take "
                "more num_training_steps, or a smaller max_lr.",
                code="LT181",
            )
        elif attribute is not None:
            attribute.set(rate)
            _set_rate(trainer, rate)
            trainer.print(f"Learning rate set to {rate:.4g} ({attribute.name})")

    def _lt_attribute(self, trainer: TrainerAPI) -> TunedAttribute:
        names = [self._attr_name] if self._attr_name else ["lr", "learning_rate"]
        return TunedAttribute("LearningRateFinder", trainer, names)

    def _lt_new_curve(self) -> LearningRateCurve:
        return LearningRateCurve(self._mode, self._min_lr, self._max_lr, self._num_training_steps)


def _still(config: Any) -> Any:
    """Return a scheduler's config by which it never steps."""
    still = copy(config)
    still.scheduler, still.interval, still.every, still.reduce_on_plateau = _Still(config.scheduler), "", None, False
    return still


class _Still:
    """A scheduler that does not step, also where a step of the user's asks it to; all else is its own."""

    def __init__(self, scheduler: Any) -> None:
        self._lt_scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lt_scheduler, name)

    def step(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing."""


class _Sweep(Callback):
    """Sets the rate of each optimizer step, and notes the smoothed loss after it; all ranks see the same."""

    def __init__(self, curve: LearningRateCurve, threshold: float | None) -> None:
        self._curve, self._lt_threshold = curve, threshold
        self._losses: list[float] = []
        self._average, self._best = 0.0, math.inf

    def on_before_optimizer_step(self, trainer: TrainerAPI, pl_module: LightningModule, optimizer: Optimizer) -> None:
        rate = self._curve.rate(len(self._curve.results["lr"]))
        for group in optimizer.param_groups:
            group["lr"] = rate

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        results, loss = self._curve.results, loss_of(outputs)
        if loss is not None:
            self._losses.append(float(trainer.strategy.all_reduce(loss.detach().float(), "mean")))
        step = trainer.global_step
        if step <= len(results["lr"]) or not self._losses:
            return
        mean, self._losses = sum(self._losses) / len(self._losses), []
        self._average = _SMOOTHING * self._average + (1 - _SMOOTHING) * mean
        smoothed = self._average / (1 - _SMOOTHING**step)
        results["lr"].append(self._curve.rate(step - 1))
        results["loss"].append(smoothed)
        diverged = self._lt_threshold is not None and step > 1 and smoothed > self._lt_threshold * self._best
        if diverged or math.isnan(smoothed):
            trainer.should_stop = True
        self._best = smoothed if step == 1 else min(self._best, smoothed)


def _set_rate(trainer: TrainerAPI, rate: float) -> None:
    """Give the optimizer and its schedulers ``rate`` as if they had been made with it."""
    factors = []
    for group in trainer.optimizers[0].param_groups:
        base = float(group.get("initial_lr", group["lr"]))
        factors.append(float(group["lr"]) / base if base else 1.0)
        group["lr"] = rate * factors[-1]
        if "initial_lr" in group:
            group["initial_lr"] = rate
    for config in trainer.lr_scheduler_configs:
        scheduler = config.scheduler
        if hasattr(scheduler, "base_lrs"):
            scheduler.base_lrs = [rate] * len(scheduler.base_lrs)
        if hasattr(scheduler, "_last_lr"):
            scheduler._last_lr = [rate * factor for factor in factors]
