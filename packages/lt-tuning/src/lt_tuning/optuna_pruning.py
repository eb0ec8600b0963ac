"""Ends a fit where Optuna prunes its trial."""

from __future__ import annotations

import os
from typing import Any

from lt_callbacks.monitored import Monitor
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["OptunaPruning"]


class OptunaPruning(Callback):
    """Reports a metric to an Optuna trial after each validation, and ends the fit where the trial is pruned.

    Rank 0 alone asks Optuna; all ranks end at the same batch. The fit ends as by any other limit: checkpoints are
    written, loggers closed. Then ``fit`` raises ``optuna.TrialPruned``, on every rank; where it started the ranks
    itself, in the process of the study, which gets the reports too. A resumed trial goes on with its earlier reports.

    Args:
        trial: of ``study.optimize``, or ``study.ask()``.
        monitor: name of the logged metric; without validation it is read at each epoch's end.

    Attributes:
        reports: values so far; the trial knows each by its place.
        pruned: whether the trial was pruned.

    Raises:
        LogError: when ``monitor`` was not logged.

    Example::

        def objective(trial):
            pruning = OptunaPruning(trial, "val_loss")
            trainer = Trainer(callbacks=[pruning])
            trainer.fit(Net(lr=trial.suggest_float("lr", 1e-4, 1.0, log=True)), train_loader, val_loader)
            return pruning.reports[-1]
    """

    monitors = True

    def __init__(self, trial: Any, monitor: str) -> None:
        self.trial = trial
        self.monitor = monitor
        self.reports: list[float] = []
        self.pruned = False
        self._lt_metric = Monitor("OptunaPruning", "no trial is pruned")
        self._lt_process = os.getpid()

    def explain(self) -> str:
        return f"ends training where Optuna prunes the trial, by {self.monitor}"

    @property
    def state_key(self) -> str:
        return self._generate_state_key(monitor=self.monitor)

    def state_dict(self) -> dict[str, Any]:
        return {"reports": list(self.reports), "pruned": self.pruned}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the reports over; hand unknown ones, as of ranks with their own memory, to the trial."""
        self.reports, self.pruned = list(state_dict["reports"]), bool(state_dict["pruned"])
        if self._lt_is_of_the_study:
            known = self.trial.study.trials[self.trial.number].intermediate_values
            for step, value in enumerate(self.reports):
                if step not in known:
                    self.trial.report(value, step)

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.reports, self.pruned = [], False

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_metric.start()

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if self._lt_metric.validated(trainer):
            self._lt_report(trainer)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Do so here where nothing is validated."""
        if not sum(trainer.num_val_batches):
            self._lt_report(trainer)

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Raise, now that the fit has ended; in ranks that ``fit`` has started nobody would get it."""
        if stage == "fit":
            self._lt_raise_where_pruned()

    def take_over(self, trainer: TrainerAPI) -> None:
        """Raise the pruning that the ranks did not."""
        self._lt_raise_where_pruned()

    def _lt_report(self, trainer: TrainerAPI) -> None:
        if self.monitor not in trainer.callback_metrics:
            error = self._lt_metric.lacking(trainer, self.monitor, trainer.callback_metrics)
            if error is not None:
                raise error
            return
        value = float(trainer.callback_metrics[self.monitor])
        pruned = False
        if trainer.is_global_zero:
            self.trial.report(value, len(self.reports))
            pruned = bool(self.trial.should_prune())
        value, self.pruned = trainer.strategy.broadcast((value, pruned))
        self.reports.append(value)
        if self.pruned:
            trainer.stop("OptunaPruning: the study prunes this trial")
            trainer.print(f"Optuna prunes this trial: {self.monitor} = {value:.5g} at report {len(self.reports)}.")

    @property
    def _lt_is_of_the_study(self) -> bool:
        return self._lt_process == os.getpid()

    def _lt_raise_where_pruned(self) -> None:
        if self.pruned and self._lt_is_of_the_study:
            from optuna import TrialPruned

            raise TrialPruned(f"{self.monitor} = {self.reports[-1]:.5g} at report {len(self.reports)}")
