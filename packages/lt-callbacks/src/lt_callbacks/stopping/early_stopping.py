"""Ends training when a metric stops getting better."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Tensor

from lt_callbacks.arguments import choice, number, whole
from lt_callbacks.monitored import Monitor, is_cut_short, on_any_rank, when_it_ends
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.duration import UNITS, Duration, multiples
from lt_core.errors import warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["EarlyStopping", "EarlyStoppingReason"]


class EarlyStoppingReason(Enum):
    """Why training was ended."""

    NOT_STOPPED = 0
    STOPPING_THRESHOLD = 1
    DIVERGENCE_THRESHOLD = 2
    PATIENCE_EXHAUSTED = 3
    NON_FINITE_METRIC = 4


class EarlyStopping(Callback):
    """Ends training when ``monitor`` has not got better for ``patience`` checks in a row, and says why.

    All ranks stop together as soon as one would. The state holds the best value and the checks waited, so that a
    resumed run stops where the uninterrupted one would.

    Args:
        monitor: the metric to watch.
        min_delta: smallest change that counts as better.
        patience: checks without getting better after which training ends, or a duration of training without it:
            ``"2 epochs"``, ``"1e6 tokens"``, ``"0.1 run"``, ``"30 min"``; looked at in checks.
        verbose: say when the metric got better.
        mode: ``"min"`` where smaller is better, or ``"max"``.
        strict: a metric that was not logged is an error; False: a warning, and the check is left out.
        check_finite: end training when the metric is NaN or infinite.
        stopping_threshold: end training as soon as the metric is better than this.
        divergence_threshold: end training as soon as the metric is worse than this.
        check_on_train_epoch_end: check at the epoch's end (True) or at validation's (False); None: at validation's
            where it does not run exactly once an epoch.
        log_rank_zero_only: do not print the reasons of other ranks.

    Attributes:
        min_delta: the change with its sign, so that ``monitor_op(current - min_delta, best_score)`` says "better".
        wait_count: checks since the metric last got better.
        stopped_epoch: the epoch in which training was ended, or 0.
        best_score: the best value so far, 0-dim.
        stopping_reason: which rule ended training.
        stopping_reason_message: the same as text.

    Raises:
        ConfigError: for wrong values.
        LogError: when ``monitor`` was not logged at a check and ``strict`` is set.
    """

    role = "early_stopping"
    monitors = True
    mode_dict: ClassVar[dict[str, Callable[[Tensor, Any], Tensor]]] = {"min": torch.lt, "max": torch.gt}
    order_dict: ClassVar[dict[str, str]] = {"min": "<", "max": ">"}

    @checks_arguments
    def __init__(
        self,
        monitor: str,
        min_delta: float = 0.0,
        patience: int | Duration | timedelta | str = 3,
        verbose: bool = False,
        mode: str = "min",
        strict: bool = True,
        check_finite: bool = True,
        stopping_threshold: float | None = None,
        divergence_threshold: float | None = None,
        check_on_train_epoch_end: bool | None = None,
        log_rank_zero_only: bool = False,
    ) -> None:
        super().__init__()
        who = "EarlyStopping"
        self.monitor = monitor
        self.min_delta = number(who, "min_delta", min_delta, 0.0) * (1 if mode == "max" else -1)
        written = isinstance(patience, (str, timedelta, Duration)) and not str(patience).strip().isdecimal()
        self.patience: int | Duration = (
            Duration.of(patience, UNITS, f"{who}(patience={{}})") if written else whole(who, "patience", patience, 0)
        )
        self.verbose = verbose
        self.mode = choice(who, "mode", mode, ("min", "max"))
        self.strict = strict
        self.check_finite = check_finite
        self.stopping_threshold = stopping_threshold
        self.divergence_threshold = divergence_threshold
        self.log_rank_zero_only = log_rank_zero_only
        self._check_on_train_epoch_end = check_on_train_epoch_end
        self._lt_metric = Monitor(who, "it does not end training")
        self._lt_rule = EarlyStoppingReason.NOT_STOPPED  # of the value that is looked at
        self._lt_trainer: TrainerAPI | None = None  # of a check
        self._lt_given_patience: int | None = None  # where a checkpoint had another one
        self._lt_forget_fit()

    def _lt_forget_fit(self) -> None:
        self.wait_count = 0
        self._lt_now = self._lt_best_at = 0.0  # of a patience that is a duration
        self.stopped_epoch = 0
        self.best_score = torch.tensor(math.inf if self.mode == "min" else -math.inf)
        self.stopping_reason = EarlyStoppingReason.NOT_STOPPED
        self.stopping_reason_message: str | None = None
        if self._lt_given_patience is not None:
            self.patience, self._lt_given_patience = self._lt_given_patience, None

    @property
    def monitor_op(self) -> Callable[[Tensor, Any], Tensor]:
        """``torch.lt`` or ``torch.gt``: whether the first value is better than the second."""
        return self.mode_dict[self.mode]

    def explain(self) -> str:
        waits = self.patience if isinstance(self.patience, Duration) else f"{self.patience} checks"
        return f"ends training when {self.monitor} ({self.mode}) did not get better in {waits}"

    @property
    def state_key(self) -> str:
        return self._generate_state_key(monitor=self.monitor, mode=self.mode)

    def state_dict(self) -> dict[str, Any]:
        return {
            "wait_count": self.wait_count,
            "stopped_epoch": self.stopped_epoch,
            "best_score": self.best_score,
            **({"patience": self.patience} if isinstance(self.patience, int) else {"best_at": self._lt_best_at}),
            "stopping_reason": self.stopping_reason.value,
            "stopping_reason_message": self.stopping_reason_message,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.wait_count = int(state_dict["wait_count"])
        self.stopped_epoch = int(state_dict["stopped_epoch"])
        self.best_score = torch.as_tensor(state_dict["best_score"])
        if (
            isinstance(self.patience, int)
            and (saved := int(state_dict.get("patience", self.patience))) != self.patience
        ):
            self.patience, self._lt_given_patience = saved, self.patience
        self._lt_best_at = float(state_dict.get("best_at", 0.0))
        self.stopping_reason = EarlyStoppingReason(state_dict.get("stopping_reason", 0))
        self.stopping_reason_message = state_dict.get("stopping_reason_message")

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_forget_fit()

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_metric.start()

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """End a run that had ended, where the same call starts it again."""
        if trainer.resumes_automatically and self.stopping_reason is not EarlyStoppingReason.NOT_STOPPED:
            trainer.stop(f"EarlyStopping: {self.stopping_reason_message}")
            trainer.print(f"Training had ended: {self.stopping_reason_message} To go on: ckpt_path='last'.")

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if is_cut_short(trainer):
            return  # a resume ends the epoch, and checks then
        if self._lt_checks_on_train_epoch_end(trainer) and not self._should_skip_check(trainer):
            self._run_early_stopping_check(trainer)

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if not self._lt_metric.validated(trainer) or self._should_skip_check(trainer):
            return
        if not self._lt_checks_on_train_epoch_end(trainer):
            self._run_early_stopping_check(trainer)

    def _lt_checks_on_train_epoch_end(self, trainer: TrainerAPI) -> bool:
        if self._check_on_train_epoch_end is not None:
            return self._check_on_train_epoch_end
        # Lightning's rule: with one validation an epoch, its metrics are there at the epoch's end
        return trainer.val_check_interval == 1.0 and trainer.check_val_every_n_epoch == 1

    def _should_skip_check(self, trainer: TrainerAPI) -> bool:
        """Return whether to skip this check; existing subclasses override it to begin later."""
        return trainer.stage != "fit" or trainer.sanity_checking

    def _run_early_stopping_check(self, trainer: TrainerAPI) -> None:
        """Check; existing subclasses override it to check later or less often."""
        metrics = trainer.callback_metrics
        self._lt_trainer = trainer
        checks = self._validate_condition_metric(metrics)
        self._lt_trainer = None
        if not checks or self.monitor not in metrics:
            return
        current = metrics[self.monitor].detach().squeeze().cpu()
        best_before = self.best_score
        self._lt_now = trainer.elapsed(self.patience.unit) if isinstance(self.patience, Duration) else 0.0
        self._lt_rule = EarlyStoppingReason.NOT_STOPPED
        stop, said = self._evaluate_stopping_criteria(current)
        message = (said or "stopped by a criterion of a subclass.") if stop else ""
        if self.verbose and self.wait_count == 0 and not message:
            better = f" by {abs(float(current - best_before)):.5g}" if torch.isfinite(best_before) else ""
            trainer.print(f"{self.monitor} got better{better}; best so far: {float(current):.5g}.")
        if on_any_rank(trainer, bool(message)):
            self._lt_stop(trainer, self._lt_rule, message)

    def _validate_condition_metric(self, logs: dict[str, Tensor]) -> bool:
        """Return whether there is a value to check; existing subclasses override it to skip checks."""
        trainer = self._lt_trainer
        if self.monitor in logs or trainer is None:
            return self.monitor in logs
        if trainer.stop_reason and self._lt_metric.awaits_validation(trainer):  # the run ends anyway
            return False
        error = self._lt_metric.lacking(trainer, self.monitor, logs)
        if error is not None:
            if self.strict:
                raise error
            warn(str(error), code="LT532")
        return False

    def _lt_stop(self, trainer: TrainerAPI, reason: EarlyStoppingReason, message: str) -> None:
        found = [(rank, *each) for rank, each in enumerate(trainer.strategy.gather_objects((reason.value, message)))]
        first, value, said = next(each for each in found if each[2])
        self.stopping_reason = reason if message else EarlyStoppingReason(value)
        self.stopping_reason_message = message or f"rank {first}: {said}"
        self.stopped_epoch = trainer.current_epoch
        if not trainer.should_stop:  # else said before: min_epochs or min_steps keep the run going
            trainer.print(f"{when_it_ends(trainer)}: {self.stopping_reason_message}")
        trainer.stop(f"EarlyStopping: {self.stopping_reason_message}")
        if not self.log_rank_zero_only:
            for rank, _, text in found[1:]:
                if text and text != said:
                    trainer.print(f"  rank {rank}: {text}")

    def _evaluate_stopping_criteria(self, current: Tensor) -> tuple[bool, str | None]:
        """Return whether to stop, and why; existing subclasses override it to wait or to record."""
        self._lt_rule, message = self._lt_judge(current)
        return bool(message), message or None

    def _lt_judge(self, current: Tensor) -> tuple[EarlyStoppingReason, str]:
        """Record the value; return the rule that says stop, and why."""
        name, value = self.monitor, f"{float(current):.5g}"
        if self.check_finite and not bool(torch.isfinite(current)):
            return EarlyStoppingReason.NON_FINITE_METRIC, f"{name} = {value} is not finite."
        if self.stopping_threshold is not None and self.monitor_op(current, self.stopping_threshold):
            self._lt_improve(current)
            return (
                EarlyStoppingReason.STOPPING_THRESHOLD,
                f"{name} = {value} is better than stopping_threshold = {self.stopping_threshold:g}.",
            )
        if self.divergence_threshold is not None and self.monitor_op(-current, -self.divergence_threshold):
            return (
                EarlyStoppingReason.DIVERGENCE_THRESHOLD,
                f"{name} = {value} is worse than divergence_threshold = {self.divergence_threshold:g}.",
            )
        if self.monitor_op(current, float(self.best_score) + self.min_delta):
            self._lt_improve(current)
            return EarlyStoppingReason.NOT_STOPPED, ""
        self.wait_count += 1
        if isinstance(self.patience, Duration):
            waits = self.patience.amount > 0 and multiples(self._lt_now - self._lt_best_at, self.patience) < 1
        else:
            waits = self.wait_count < self.patience
        if waits:
            return EarlyStoppingReason.NOT_STOPPED, ""
        lately = f"in the last {self.wait_count} checks; its best was {float(self.best_score):.5g}."
        return (
            EarlyStoppingReason.PATIENCE_EXHAUSTED,
            f"{name} did not get better by more than {abs(self.min_delta):g} {lately}",
        )

    def _lt_improve(self, current: Tensor) -> None:
        self.best_score, self._lt_best_at = current, self._lt_now
        self.wait_count = 0
