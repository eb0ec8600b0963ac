"""The callback that has checkpoints saved, names them, and keeps the best."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from lt_callbacks.arguments import choice
from lt_callbacks.checkpoint.base import failed_together
from lt_callbacks.checkpoint.naming import absolute, check_template, path_in, run_folder
from lt_callbacks.checkpoint.ranking import Ranked, as_score
from lt_callbacks.checkpoint.saves import RankedSaves
from lt_callbacks.checkpoint.schedule import CheckpointSchedule
from lt_core.arguments import checks_arguments
from lt_core.duration import Duration
from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule
from lt_core.plugins import install_hint, load
from lt_core.trainer import TrainerAPI

__all__ = ["ModelCheckpoint"]


class ModelCheckpoint(RankedSaves):
    """Has checkpoints saved, keeps the best ones, and deletes replaced ones.

    The loop writes them when the boundary is complete; only then are old ones deleted. It deletes and overwrites only
    files that this callback has written in this folder, which their headers say, and none that another callback of the
    run keeps. The state holds the kept files with their scores and the unfinished saves, so that a resumed run keeps
    the files of an uninterrupted one.

    A fit that is called with ``ckpt_path="auto"`` needs the newest state, and not the best. Where no ModelCheckpoint of
    the run keeps it anyway (``save_last``, ``save_top_k=-1``, or without ``monitor``), the first one keeps it as
    ``last.ckpt``, whole also with ``save_weights_only``, at each moment at which one of them looks, and at the end.

    Args:
        dirpath: folder; default ``checkpoints`` in the run's log folder.
        filename: name without ending, filled with metrics: ``"{epoch}-{val_loss:.2f}"``. Default ``"{epoch}-{step}"``.
        monitor: metric that decides which are best; None keeps the latest.
        verbose: print each save and its reason.
        save_last: True also keeps the newest as ``last.ckpt``, at the end of the run too: another name of the same file
            where that state is kept anyway, which ``"link"`` makes a symbolic link; else a file.
        save_top_k: how many to keep; 0 none, -1 all.
        save_weights_only: leave out the state that a resume needs.
        mode: ``"min"`` or ``"max"`` of ``monitor`` is best.
        auto_insert_metric_name: ``{epoch}`` becomes ``epoch=3``; False: ``3``.
        every_n_train_steps: save each time this many optimizer steps are done. Where ``monitor`` is a metric of
            validation, the next validation ranks and saves.
        train_time_interval: save whenever this time (``"10 min"``) has passed, at the next batch.
        every_n_epochs: save each time this many epochs are done; 1 where neither of the two above is given.
        save_on_train_epoch_end: save at the epoch's end (True) or at validation's (False); None: at validation's where
            it does not run exactly once an epoch. Where nothing is validated, at the epoch's end.
        enable_version_counter: a file of another run or callback is not overwritten, but ``-v1`` added; False: it is.
        save_on_exception: save when an exception ends the run, on all ranks. A resume does the batch again in which it
            came.
        trainable_only: leave out the parameters that do not require gradients: small files for a frozen backbone. A
            load names them and compares the module's own values with this run's.
        exclude: leave out the weights whose names fit one of these patterns (``"backbone.*"``), likewise.
        safetensors: also write the weights alone, for other programs, as ``.safetensors`` beside each checkpoint:
            before it, while training waits; linked and deleted with it. ``interrupted.ckpt`` goes without.
        every: in place of the three counts above, any duration: ``"1e9 tokens"``, ``"0.1 run"``, ``"30 min"``,
            ``"500 steps"``.

    Raises:
        ConfigError: for wrong values and combinations.
        LogError: when ``monitor`` was not logged at the first moment where a save was due.
    """

    @checks_arguments
    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        monitor: str | None = None,
        verbose: bool = False,
        save_last: bool | Literal["link"] | None = None,
        save_top_k: int = 1,
        save_weights_only: bool = False,
        mode: str = "min",
        auto_insert_metric_name: bool = True,
        every_n_train_steps: int | None = None,
        train_time_interval: str | timedelta | None = None,
        every_n_epochs: int | None = None,
        save_on_train_epoch_end: bool | None = None,
        enable_version_counter: bool = True,
        save_on_exception: bool = False,
        *,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        safetensors: bool = False,
        every: Duration | timedelta | str | None = None,
    ) -> None:
        if safetensors and find_spec("safetensors") is None:
            raise ConfigError(
                "ModelCheckpoint(safetensors=True) needs the package safetensors: "
                f"{install_hint('lt-checkpoint[safetensors]')}.",
                code="LT680",
            )
        if save_last not in (None, True, False, "link"):
            raise ConfigError(
                f"ModelCheckpoint(save_last={save_last!r}): expected True, False or 'link'.", code="LT178"
            )
        super().__init__()
        self.monitor = monitor
        self.verbose = verbose
        self.save_last = save_last
        self.save_top_k = save_top_k
        self.save_weights_only = save_weights_only
        self.mode = choice("ModelCheckpoint", "mode", mode, ("min", "max"))
        self.auto_insert_metric_name = auto_insert_metric_name
        self.enable_version_counter = enable_version_counter
        self.save_on_exception = save_on_exception
        self.trainable_only = trainable_only
        self.exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)
        self.filename = check_template("ModelCheckpoint", filename) if filename is not None else None
        self.dirpath: str | None = absolute(dirpath) if dirpath is not None else None
        self._lt_own_dirpath = self.dirpath
        self._lt_schedule = CheckpointSchedule(
            every_n_train_steps,
            every_n_epochs,
            train_time_interval,
            save_on_train_epoch_end,
            every,
        )
        self.batch_hooks_every = self._lt_schedule.every_n_train_steps
        self._lt_weights_ending = ".safetensors" if safetensors else ""
        self._lt_forget_fit()

    def explain(self) -> str:
        count = {-1: "all", 0: "none", 1: ""}.get(self.save_top_k, str(self.save_top_k))
        which = f"best by {self.monitor} ({self.mode})" if self.monitor else "newest"
        kept = f"keeps {count}" if self.save_top_k in (-1, 0) else f"keeps the {f'{count} {which}'.strip()}"
        return f"saves {self._lt_schedule}, {kept}{' and the last' if self.save_last else ''}"

    # ---- for users to read -------------------------------------------------------------------------------------------

    # Paths are readable: pending saves are completed first (CheckpointStore.readable).

    best_model_path = Ranked("best", os.fspath, "named_best")
    """The best checkpoint, or the latest without ``monitor``; empty if there is none."""
    best_model_score = Ranked("best_score", as_score, "given_score")
    """The metric of the best checkpoint, 0-dim."""
    best_k_models = Ranked("scores", lambda scores: {path: torch.as_tensor(score) for path, score in scores.items()})
    """Metrics of the kept checkpoints by path."""
    kth_best_model_path = Ranked("worst", os.fspath)
    """The next checkpoint to delete; empty while there is room."""
    kth_value = Ranked("worst_score", as_score, "given_worst")
    """The metric that a new checkpoint must beat, 0-dim."""
    current_score = Ranked("current", as_score)
    """The metric at the last check, 0-dim."""
    last_model_path = Ranked("last", os.fspath)
    """The file that ``save_last`` keeps."""

    def to_yaml(self, filepath: str | os.PathLike[str] | None = None) -> None:
        """Write the kept checkpoints with their scores as YAML, by default beside them."""
        path = Path(filepath) if filepath is not None else Path(self.dirpath or "") / "best_k_models.yaml"
        lines = [f"{kept}: {float(score)}\n" for kept, score in self.best_k_models.items()]
        path.write_text("".join(lines), encoding="utf-8")

    @property
    def every_n_epochs(self) -> int | None:
        """Epochs between two saves; 0 where steps or time decide."""
        return self._lt_schedule.every_n_epochs

    # ---- state -------------------------------------------------------------------------------------------------------

    @property
    def state_key(self) -> str:
        schedule = self._lt_schedule
        return self._generate_state_key(
            monitor=self.monitor,
            mode=self.mode,
            every_n_train_steps=schedule.every_n_train_steps,
            every_n_epochs=schedule.every_n_epochs,
            train_time_interval=schedule.train_time_interval,
            **({} if schedule.other is None else {"every": str(schedule.other)}),
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "monitor": self.monitor,
            "dirpath": self.dirpath,
            "last_global_step_saved": self._last_global_step_saved,
            "waits": self._lt_waits,
            "of_validation": self._lt_metric.of_validation,
            **self._lt_store.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        there = str(state_dict.get("dirpath") or self.dirpath or "")
        self._last_global_step_saved = int(state_dict.get("last_global_step_saved", 0))
        self._lt_waits = bool(state_dict.get("waits", False))
        self._lt_metric.of_validation = state_dict.get("of_validation")
        self._lt_store.load_state_dict(state_dict, there, self.dirpath or there, self._last_global_step_saved)

    def begin_anew(self, trainer: TrainerAPI) -> None:
        """Leave the files of the previous fit to the user, and begin an empty ranking."""
        self._lt_forget_fit()

    # ---- the run -----------------------------------------------------------------------------------------------------

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Agree on the folder on all ranks."""
        if stage != "fit":
            return
        self._lt_metric.start()
        self._lt_in_first_step = False
        if self._lt_own_dirpath is None:
            self.dirpath = path_in(absolute(run_folder(trainer)), "checkpoints")
        self.dirpath = str(trainer.strategy.broadcast(self.dirpath))
        self._lt_store.open(trainer, self, self.dirpath)
        all_of_run = [cb for cb in trainer.callbacks if isinstance(cb, ModelCheckpoint)]
        needed = trainer.resumes_automatically and not any(cb._lt_keeps_newest for cb in all_of_run)
        self._lt_keeper = all_of_run[0] if needed else None
        if self._lt_store.weights_path("") and trainer.strategy.capabilities.sharded_checkpoints:
            raise ConfigError(
                f"ModelCheckpoint(safetensors=True): with strategy {trainer.strategy.name!r} every rank writes its "
                "part of a checkpoint, and no process has the weights whole. Leave it out; afterwards: lt ckpt export "
                "last.ckpt weights.safetensors.",
                code="LT681",
            )
        if (self.save_top_k or self._lt_saves_last) and not trainer.fast_dev_run:
            self._lt_store.check(trainer)

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if self.exclude:
            load("defaults", "check_patterns")(self.exclude, pl_module, pl_module.state_dict())
        self._lt_schedule.start(trainer)
        self._lt_in_first_step = not trainer.global_step and not trainer.fast_dev_run
        self._last_global_step_saved = min(self._last_global_step_saved, trainer.global_step)  # of a fit before
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._lt_store.clean()
        if self._lt_store.resumed:
            self._lt_interrupted_at = trainer.global_step if self._lt_store.interrupted else -1
        for path in self._lt_store.take_over(trainer):
            self._lt_ask(trainer, path)

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._lt_schedule.in_epoch:
            return
        if self._lt_schedule.due_after_batch(trainer) and not self._should_skip_saving_checkpoint(trainer):
            self._lt_waits = self._lt_metric.comes_with_validation(trainer, self.monitor)
            self._lt_save(trainer, top_k=not self._lt_waits)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Save by epochs, where validation does not decide the moment."""
        if self._lt_waits and self._lt_metric.of_validation is False:  # the means of training's epoch are there now
            self._lt_waits = False
            self._lt_save(trainer, top_k=True)
        elif not self._should_skip_saving_checkpoint(trainer) and self._lt_schedule.on_train_epoch_end(trainer):
            self._lt_save(trainer, top_k=self._lt_schedule.due_after_epoch(trainer))
        unranked = self.monitor is not None and not self._lt_saves_last and self._lt_metric.awaits_validation(trainer)
        if trainer.stop_reason and unranked:
            if path := self._lt_save_interrupted(trainer):
                trainer.print(f"{trainer.stop_reason} before the first validation: {path} resumes this run.")

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Record whether the metric is one of validation."""
        if self._lt_schedule.in_epoch:
            self._lt_metric.before_validation(trainer, self.monitor)

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Save after a validation, where that is the moment, or a save waits for its metric."""
        if not self._lt_metric.validated(trainer, self.monitor if self._lt_schedule.in_epoch else None):
            return
        if self._lt_waits and self._lt_metric.of_validation:
            self._lt_waits = False
            self._lt_save(trainer, top_k=True)
        elif not self._should_skip_saving_checkpoint(trainer) and not self._lt_schedule.on_train_epoch_end(trainer):
            self._lt_save(trainer, top_k=self._lt_schedule.due_after_epoch(trainer))

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Save the end for a later resume, and unranked a save that waited for a validation which did not come."""
        newest = self.monitor is None and trainer.resumes_automatically
        ends = not trainer.interrupted and not self._should_skip_saving_checkpoint(trainer)
        if ends and (newest or (self._lt_saves_last and self._lt_step_of_moment != trainer.global_step)):
            self._lt_save(trainer, top_k=newest)
        if not self._lt_waits:
            return
        path = self._lt_save_interrupted(trainer) or self._lt_store.interrupted
        if trainer.is_global_zero:
            warn(
                f"ModelCheckpoint(monitor={self.monitor!r}): a save that was due {self._lt_schedule} waited for the "
                f"next validation, and training ended before it. {path or self._lt_store.ranking.newest} holds the "
                "state of the end, unranked. Validate more often (val_check_interval), or monitor a training metric.",
                code="LT516",
            )

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        skipped = self._should_skip_saving_checkpoint(trainer)
        due = not skipped or (self._lt_in_first_step and not trainer.global_step)
        if not self.save_on_exception or not due or not failed_together("ModelCheckpoint", trainer):
            return
        path = self._lt_agreed_path(trainer, self._monitor_candidates(trainer), may_replace="")
        self._save_checkpoint(trainer, path)
        self._lt_store.ranking.keep(path)
        self._last_global_step_saved = trainer.global_step
        trainer.print(f"Saved {path} after {type(exception).__name__}.")

    def on_interrupt(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Save ``interrupted.ckpt`` after a signal, unless this step is saved already."""
        if path := self._lt_save_interrupted(trainer):
            trainer.print(f"Interrupted: {path} resumes this run, as does ckpt_path='last'.")

    def on_fit_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Delete ``interrupted.ckpt`` at the end of a complete run that kept something newer."""
        finished = bool(trainer.strategy.broadcast(not trainer.interrupted))
        if not finished or self.dirpath is None:
            return
        if self.save_top_k and not self._last_global_step_saved and not trainer.fast_dev_run:
            trainer.print(
                f"No checkpoint: one is due {self._lt_schedule}; training ended at step {trainer.global_step}."
            )
        self._lt_store.forget_missing(trainer)  # somebody deleted them meanwhile, or the whole folder
        if self.kept_paths() and self._last_global_step_saved > self._lt_interrupted_at:
            for path in dict.fromkeys([self._lt_store.interrupted, self.format_checkpoint_name({}, "interrupted")]):
                if path:
                    self._lt_store.delete(trainer, path)
            self._lt_store.interrupted = ""

    def on_saved(self, path: str) -> None:
        self._lt_store.written(path)

    def on_save_failed(self, path: str, error: BaseException) -> None:
        self._lt_store.failed(path)

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        kept = self._lt_store.close()
        if kept and stage == "fit":
            trainer.print(kept)

    def kept_paths(self) -> set[str]:
        return self._lt_store.paths()

    def owns(self, path: str) -> bool:
        return self._lt_store.owns(path)
