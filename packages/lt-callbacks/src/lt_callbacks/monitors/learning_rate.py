"""Sends learning rates to the loggers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.optim import Optimizer

from lt_callbacks.arguments import choice, require_logger
from lt_callbacks.monitors.logged_steps import LoggedSteps
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["LearningRateMonitor"]

_KEPT = 10_000


class LearningRateMonitor(Callback):
    """Sends the learning rates of all optimizers to the loggers: ``lr-Adam``, ``lr-Adam/pg1`` for a parameter group.

    A scheduler's ``name`` in ``configure_optimizers`` takes the place of ``lr-Adam``; a parameter group's ``name`` that
    of ``pg1``. Other callbacks can monitor them: ``EarlyStopping("lr-Adam")``.

    Args:
        logging_interval: ``"step"``, ``"epoch"``, or None for the ``interval`` of each optimizer's schedulers, and both
            where it has none.
        log_momentum: momentum (or the first beta) too.
        log_weight_decay: weight decay too.

    Attributes:
        lrs: the values sent so far, by name; the last 10,000 of each.
        last_momentum_values: the last momentum by name (``lr-SGD-momentum``), None before the first.
        last_weight_decay_values: the last weight decay by name (``lr-SGD-weight_decay``), None before the first.

    Raises:
        ConfigError: for another ``logging_interval``; and at the start of training where there is no logger.
    """

    @checks_arguments
    def __init__(
        self, logging_interval: str | None = None, log_momentum: bool = False, log_weight_decay: bool = False
    ) -> None:
        if logging_interval is not None:
            choice("LearningRateMonitor", "logging_interval", logging_interval, ("step", "epoch"))
        self.logging_interval = logging_interval
        self.log_momentum = log_momentum
        self.log_weight_decay = log_weight_decay
        self.lrs: dict[str, list[float]] = {}
        self.last_momentum_values: dict[str, float | None] = {}
        self.last_weight_decay_values: dict[str, float | None] = {}
        self._lt_logged = LoggedSteps()

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        require_logger("LearningRateMonitor", trainer)
        names = {name: group for name, _, group in _named_groups(trainer)}
        without = [name for name, group in names.items() if not {"betas", "momentum"} & group.keys()]
        if self.log_momentum and without:
            warn(f"LearningRateMonitor(log_momentum=True): {without} have no momentum: 0 is logged.", code="LT247")
        self.lrs = {name: [] for name in names}
        self._lt_logged = LoggedSteps()
        self.last_momentum_values = {f"{name}-momentum": None for name in names}
        self.last_weight_decay_values = {f"{name}-weight_decay": None for name in names}

    def on_train_batch_start(self, trainer: TrainerAPI, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Send the rates of the step that comes, where it will be logged."""
        if self._lt_logged.is_due(trainer, coming=True) and self.logging_interval != "epoch":
            self._lt_send(trainer, "step")

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Send the rates with which the epoch begins."""
        if self.logging_interval != "step":
            self._lt_send(trainer, "epoch")

    def _lt_send(self, trainer: TrainerAPI, interval: str) -> None:
        values: dict[str, float] = {}
        for name, optimizer, group in _named_groups(trainer):
            intervals = [config.interval for config in trainer.lr_scheduler_configs if config.optimizer is optimizer]
            if self.logging_interval is None and intervals and interval not in intervals:
                continue
            values[name] = float(group["lr"])
            kept = self.lrs.setdefault(name, [])
            kept.append(values[name])
            del kept[:-_KEPT]
            if self.log_momentum:
                key, momentum = f"{name}-momentum", group["betas"][0] if "betas" in group else group.get("momentum", 0)
                values[key] = self.last_momentum_values[key] = float(momentum)
            if self.log_weight_decay and "weight_decay" in group:
                key = f"{name}-weight_decay"
                values[key] = self.last_weight_decay_values[key] = float(group["weight_decay"])
        if values:
            trainer.callback_metrics.update({name: torch.tensor(value) for name, value in values.items()})
            trainer.log_metrics(values, int(trainer.elapsed("steps")))


def _named_groups(trainer: TrainerAPI) -> list[tuple[str, Optimizer, dict[str, Any]]]:
    """Return each parameter group with its name and its optimizer.

    An optimizer has the name of its scheduler, else one by its class, numbered where two are alike.
    """
    configs = trainer.lr_scheduler_configs
    given = {id(config.optimizer): config.name for config in configs if config.optimizer is not None and config.name}
    seen: Counter[str] = Counter()
    named = []
    for optimizer in trainer.optimizers:
        name = given.get(id(optimizer)) or f"lr-{type(optimizer).__name__}"
        own, groups = name if not seen[name] else f"{name}-{seen[name]}", optimizer.param_groups
        seen[name] += 1
        for number, group in enumerate(groups, 1):
            ending = group.get("name", f"pg{number}" if len(groups) > 1 else None)
            named.append((own if ending is None else f"{own}/{ending}", optimizer, group))
    return named
