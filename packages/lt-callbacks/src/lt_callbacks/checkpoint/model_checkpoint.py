"""When checkpoints are saved, under which name, and which ones are kept."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import torch
from torch import Tensor

from lt_callbacks.arguments import choice
from lt_callbacks.checkpoint.base import Checkpoint
from lt_callbacks.checkpoint.failed_together import failed_together
from lt_callbacks.checkpoint.files import (
    CheckpointFiles,
    absolute,
    is_remote,
    mark_of,
    real_paths,
    relative_name,
    run_folder,
)
from lt_callbacks.checkpoint.naming import check_template, fill_template
from lt_callbacks.checkpoint.pending_saves import PendingSave, PendingSaves
from lt_callbacks.checkpoint.ranking import CheckpointRanking
from lt_callbacks.checkpoint.schedule import CheckpointSchedule
from lt_callbacks.monitored import Monitor
from lt_core.arguments import checks_arguments
from lt_core.errors import CheckpointError, ConfigError, warn
from lt_core.partial_save import check_patterns

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_core.trainer import TrainerAPI

__all__ = ["ModelCheckpoint"]


class ModelCheckpoint(Checkpoint):
    """Has checkpoints saved, keeps the best ones, and deletes those that they replace.

    The loop writes them when the boundary is complete; only then are old ones deleted. It deletes and overwrites only
    files that this callback has written in this folder, which their headers say, and none that another callback of the
    run keeps. The state holds the kept files with their scores and the unfinished saves, so that a resumed run keeps
    what the uninterrupted one would have kept.

    Args:
        dirpath: folder; default ``checkpoints`` in the run's log folder.
        filename: name without ending, filled with metrics: ``"{epoch}-{val_loss:.2f}"``. Default ``"{epoch}-{step}"``.
        monitor: metric that decides which are best; None keeps the latest.
        verbose: say what was saved and why.
        save_last: True also keeps the newest as ``last.ckpt``; ``"link"`` makes that a symbolic link.
        save_top_k: how many to keep; 0 none, -1 all.
        save_weights_only: leave out what a resume needs.
        mode: ``"min"`` or ``"max"`` of ``monitor`` is best.
        auto_insert_metric_name: ``{epoch}`` becomes ``epoch=3``; False: ``3``.
        every_n_train_steps: save after every so many optimizer steps.
        train_time_interval: save whenever this time has passed, at the next batch.
        every_n_epochs: save after every so many epochs; 1 where neither of the two above is given.
        save_on_train_epoch_end: save at the epoch's end (True) or at validation's (False); None: at validation's where
            it does not run exactly once an epoch.
        enable_version_counter: a file of another run or callback is not overwritten, but ``-v1`` added; False: it is.
        save_on_exception: save when an exception ends the run, on all ranks. A resume does the batch again in which it
            came.
        trainable_only: leave out the parameters that do not require gradients: small files for a frozen backbone. A
            load names them and compares the module's own values with those of this run.
        exclude: leave out the weights whose names fit one of these patterns (``"backbone.*"``), likewise.

    Raises:
        ConfigError: for wrong values and combinations.
        LogError: when ``monitor`` was not logged at the first moment where a save was due.
    """

    CHECKPOINT_JOIN_CHAR = "-"
    CHECKPOINT_EQUALS_CHAR = "="
    CHECKPOINT_NAME_LAST = "last"
    FILE_EXTENSION = ".ckpt"
    STARTING_VERSION = 1

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
        train_time_interval: timedelta | None = None,
        every_n_epochs: int | None = None,
        save_on_train_epoch_end: bool | None = None,
        enable_version_counter: bool = True,
        save_on_exception: bool = False,
        *,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
    ) -> None:
        if save_last not in (None, True, False, "link"):
            raise ConfigError(
                f"ModelCheckpoint(save_last={save_last!r}): expected True, False or 'link'.", code="LT178"
            )
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
        self._own_dirpath = self.dirpath
        self._schedule = CheckpointSchedule(
            every_n_train_steps, every_n_epochs, train_time_interval, save_on_train_epoch_end
        )
        self.batch_hooks_every = self._schedule.every_n_train_steps
        self._ranking = CheckpointRanking(monitor, mode, save_top_k)
        self._saves = PendingSaves()
        self._owner_id = ""
        self._trainer: TrainerAPI | None = None
        self._files: CheckpointFiles | None = None
        self._metric = Monitor("ModelCheckpoint", "it keeps no best checkpoint")
        self._resumed = False
        self._left: set[str] = set()
        self._moved_from: str | None = None
        self._mark_before = ""
        self._interrupted = ""
        self._interrupted_at = -1
        self._last_global_step_saved = 0

    def explain(self) -> str:
        """Say when it saves, and what it keeps."""
        count = {-1: "all", 0: "none", 1: ""}.get(self.save_top_k, str(self.save_top_k))
        which = f"best by {self.monitor} ({self.mode})" if self.monitor else "newest"
        kept = f"keeps {count}" if self.save_top_k in (-1, 0) else f"keeps the {f'{count} {which}'.strip()}"
        return f"saves {self._schedule}, {kept}{' and the last' if self.save_last else ''}"

    # ---- what users read ---------------------------------------------------------------------------------------------

    @property
    def best_model_path(self) -> str:
        """The best checkpoint, or the latest without ``monitor``; empty where there is none."""
        return self._ranking.best

    @property
    def best_model_score(self) -> Tensor | None:
        """The metric of the best checkpoint, 0-dim."""
        return self._ranking.best_score

    @property
    def best_k_models(self) -> dict[str, Tensor]:
        """Metrics of the kept checkpoints by path."""
        return self._ranking.scores

    @property
    def kth_best_model_path(self) -> str:
        """The kept checkpoint that goes next; empty while there is room."""
        return self._ranking.worst

    @property
    def kth_value(self) -> Tensor | None:
        """The metric that a new checkpoint must beat, 0-dim."""
        return self._ranking.worst_score

    @property
    def current_score(self) -> Tensor | None:
        """The metric as it was looked at last, 0-dim."""
        return self._ranking.current

    @property
    def last_model_path(self) -> str:
        """What ``save_last`` keeps."""
        return self._ranking.last

    @property
    def every_n_epochs(self) -> int | None:
        """Epochs between two saves; 0 where steps or time decide."""
        return self._schedule.every_n_epochs

    # ---- state -------------------------------------------------------------------------------------------------------

    @property
    def state_key(self) -> str:
        schedule = self._schedule
        return self._generate_state_key(
            monitor=self.monitor,
            mode=self.mode,
            every_n_train_steps=schedule.every_n_train_steps,
            every_n_epochs=schedule.every_n_epochs,
            train_time_interval=schedule.train_time_interval,
        )

    def state_dict(self) -> dict[str, Any]:
        ranking = self._ranking
        return {
            "monitor": self.monitor,
            "dirpath": self.dirpath,
            "best_model_path": ranking.best,
            "best_model_score": ranking.best_score,
            "best_k_models": dict(ranking.scores),
            "kth_best_model_path": ranking.worst,
            "kth_value": ranking.worst_score,
            "current_score": ranking.current,
            "last_model_path": ranking.last,
            "files": list(ranking.files),
            "newest": ranking.newest,
            "last_global_step_saved": self._last_global_step_saved,
            "mark": self._files.mark if self._files is not None else self._mark_before,
            "run_id": self._owner_id,  # as 0.1 named it; the run itself is named in the header
            "interrupted": self._interrupted,
            "unfinished": self._saves.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the lists of a killed or finished run; paths that lead out of its folder are dropped."""
        there = str(state_dict.get("dirpath") or self.dirpath or "")
        here = self.dirpath or there

        def place(path: Any) -> str:
            name = relative_name(str(path), there) if path else None
            return "" if name is None else _join(here, name)

        scores = state_dict.get("best_k_models", {})
        latest = [state_dict.get("best_model_path") or "", state_dict.get("last_model_path") or ""]
        self._ranking.restore(
            {
                "files": state_dict.get("files", [*scores, *latest]),
                "scores": scores,
                "best": latest[0],
                "worst": state_dict.get("kth_best_model_path"),
                "last": latest[1],
                "newest": state_dict.get("newest"),
                "current": state_dict.get("current_score"),
            },
            place,
        )
        self._last_global_step_saved = int(state_dict.get("last_global_step_saved", 0))
        self._owner_id = str(state_dict.get("run_id") or self._owner_id)
        self._interrupted = place(state_dict.get("interrupted"))
        self._saves.load_state_dict(state_dict.get("unfinished", {}), place, self._last_global_step_saved)
        self._resumed = True
        moved = there and real_paths([_join(there, "file")]) != real_paths([_join(here, "file")])
        self._moved_from = there if moved else None
        self._mark_before = str(state_dict.get("mark", ""))
        if moved and not self._mark_before:
            self._mark_before = mark_of(self._owner_id, there)
        if self._trainer is not None:
            self._files = self._files_of(self._trainer)

    # ---- the run -----------------------------------------------------------------------------------------------------

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Settle the folder, the same on all ranks."""
        if stage != "fit":
            return
        self._trainer = trainer
        self._left = set()
        self._metric.start()
        self._owner_id = self._owner_id or uuid4().hex  # not before: copies of a callback are callbacks of their own
        if self._own_dirpath is None:
            self.dirpath = _join(absolute(run_folder(trainer)), "checkpoints")
        self.dirpath = str(trainer.strategy.broadcast(self.dirpath))
        self._files = self._files_of(trainer)
        if (self.save_top_k or self.save_last) and not trainer.fast_dev_run:
            self._files.check(trainer.strategy)

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Finish what a killed predecessor had begun."""
        if self.exclude:
            check_patterns(self.exclude, pl_module, pl_module.state_dict())
        self._schedule.start()
        self._last_global_step_saved = min(self._last_global_step_saved, trainer.global_step)  # of a fit before
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._folder.clean()
        if self._resumed:
            self._resumed = False
            self._interrupted_at = trainer.global_step if self._interrupted else -1
            self._take_over(trainer)

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save by steps or by time."""
        if not self._schedule.in_epoch:
            return
        if self._schedule.due_after_batch(trainer) and self._may_save(trainer):
            self._save(trainer, top_k=True)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Save by epochs, where validation does not decide the moment."""
        if self._may_save(trainer) and self._schedule.on_train_epoch_end(trainer):
            self._save(trainer, top_k=self._schedule.due_after_epoch(trainer))
        if trainer.stop_reason and self.monitor is not None and self._metric.awaits_validation(trainer):
            if path := self._save_interrupted(trainer):
                trainer.print(f"{trainer.stop_reason} before the first validation: {path} resumes this run.")

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Save after a validation, where that is the moment."""
        if not self._metric.validated(trainer) or not self._may_save(trainer):
            return
        if not self._schedule.on_train_epoch_end(trainer):
            self._save(trainer, top_k=self._schedule.due_after_epoch(trainer))

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        """Save what there is, where asked for."""
        if not self.save_on_exception or not self._may_save(trainer) or not failed_together("ModelCheckpoint", trainer):
            return
        path = self._agreed_path(trainer, self._metrics(trainer), may_replace="")
        self._folder.writes(path)
        trainer.save_checkpoint(path, **self._contents)
        self._ranking.keep(path)
        self._last_global_step_saved = trainer.global_step
        trainer.print(f"Saved {path} after {type(exception).__name__}.")

    def on_interrupt(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """A signal ends the run: save what resumes it as ``interrupted.ckpt``, unless this step is saved already."""
        if path := self._save_interrupted(trainer):
            trainer.print(f"Interrupted: {path} resumes this run, as does ckpt_path='last'.")

    def _save_interrupted(self, trainer: TrainerAPI) -> str:
        """Save what resumes the run, unless this step is saved already; return the path, or nothing."""
        if not self._may_save(trainer) or self.dirpath is None:
            return ""
        others = [cb for cb in self._others() if isinstance(cb, ModelCheckpoint) and cb.dirpath == self.dirpath]
        if any(cb._interrupted_at == trainer.global_step for cb in others):  # one is enough
            return ""
        self._interrupted_at = trainer.global_step
        path = self._agreed_path(trainer, {}, self._interrupted, template="interrupted")
        self._interrupted = path
        self._ask(trainer, path, weights_only=False)
        return path

    def on_fit_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """The run came to its end: what once resumed it is of no more use, where something newer was kept."""
        finished = bool(trainer.strategy.broadcast(not trainer.interrupted))
        if not finished or self.dirpath is None:
            return
        self._forget_missing(trainer)  # somebody deleted them meanwhile, or the whole folder
        if self.kept_paths() and self._last_global_step_saved > self._interrupted_at:
            for path in dict.fromkeys([self._interrupted, self.format_checkpoint_name({}, "interrupted")]):
                if path:
                    self._delete(trainer, path)
            self._interrupted = ""
        if trainer.is_global_zero:
            self._folder.retire_ledger()

    def on_saved(self, path: str) -> None:
        """A checkpoint is with the writer: links and deletions follow it, and are left out where it fails."""
        save, trainer = self._saves.give(path), self._trainer
        if save is None or trainer is None:
            return
        for target, symbolic in save.links:
            self._link(trainer, path, target, symbolic)
        self._remove(trainer, save.removes)

    def on_save_failed(self, path: str, error: BaseException) -> None:
        """A checkpoint could not be written: keep what it would have replaced."""
        save = self._saves.fail(path)
        if save is None:
            return
        if save.before is not None:
            self._ranking.restore(save.before)
        else:
            self._ranking.drop(path)

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Say what was kept."""
        if self._trainer is not None and stage == "fit" and trainer.is_global_zero and (kept := self._report()):
            trainer.print(kept)
        self._trainer = None

    # ---- names -------------------------------------------------------------------------------------------------------

    def format_checkpoint_name(
        self,
        metrics: Mapping[str, Any],
        filename: str | None = None,
        ver: int | None = None,
        prefix: str | None = None,
    ) -> str:
        """Return the path for ``metrics``: folder, prefix, filled name, version, ending.

        Raises:
            ConfigError: where a value does not fit its format, or the name leads out of the folder.
        """
        join, equals = self.CHECKPOINT_JOIN_CHAR, self.CHECKPOINT_EQUALS_CHAR
        template = filename or self.filename or f"{{epoch}}{join}{{step}}"
        insert = self.auto_insert_metric_name
        name = fill_template("ModelCheckpoint", template, metrics, insert_names=insert, equals=equals)
        name = join.join(([prefix] if prefix else []) + [name] + ([f"v{ver}"] if ver is not None else []))
        return _join(self.dirpath or "", name + self.FILE_EXTENSION)

    def to_yaml(self, filepath: str | os.PathLike[str] | None = None) -> None:
        """Write the kept checkpoints with their scores as YAML, by default beside them."""
        path = Path(filepath) if filepath is not None else Path(self.dirpath or "") / "best_k_models.yaml"
        lines = [f"{kept}: {float(score)}\n" for kept, score in self.best_k_models.items()]
        path.write_text("".join(lines), encoding="utf-8")

    @property
    def _contents(self) -> dict[str, Any]:
        """What goes into a file, as :meth:`TrainerAPI.request_save` takes it; only what was asked for."""
        asked = {
            "weights_only": self.save_weights_only,
            "trainable_only": self.trainable_only,
            "exclude": self.exclude,
        }
        return {name: value for name, value in asked.items() if value}

    # ---- what --------------------------------------------------------------------------------------------------------

    def _may_save(self, trainer: TrainerAPI) -> bool:
        fitting = trainer.stage == "fit" and not trainer.sanity_checking and not trainer.fast_dev_run
        return fitting and self._last_global_step_saved != trainer.global_step

    def _metrics(self, trainer: TrainerAPI) -> dict[str, Any]:
        metrics: dict[str, Any] = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        for name, value in trainer.callback_metrics.items():
            metrics[name] = int(value) if name in metrics else value
        return metrics

    def _save(self, trainer: TrainerAPI, top_k: bool) -> None:
        metrics = self._metrics(trainer)
        before = self._ranking.snapshot()
        saved = ""
        if top_k and self.save_top_k != 0:
            save = self._save_latest if self.monitor is None else self._save_best
            saved = save(trainer, metrics, before)
        if self.save_last:
            self._save_last(trainer, metrics, saved, before)

    def _save_latest(self, trainer: TrainerAPI, metrics: dict[str, Any], before: dict[str, Any]) -> str:
        leaves = self._ranking.best if self.save_top_k == 1 else ""
        path = self._agreed_path(trainer, metrics, leaves)
        self._ranking.add(path, None)
        self._request(trainer, path, leaves, before)
        return path

    def _save_best(self, trainer: TrainerAPI, metrics: dict[str, Any], before: dict[str, Any]) -> str:
        assert self.monitor is not None
        if self.monitor not in metrics:
            logged = [name for name in metrics if name not in ("epoch", "step")]
            if (error := self._metric.lacking(trainer, self.monitor, logged)) is not None:
                raise error
            return ""
        ranking, value = self._ranking, torch.as_tensor(metrics[self.monitor])
        score = ranking.current = self._agreed_score(trainer, value)
        if not ranking.takes(score):
            self._tell(trainer, f"{self.monitor!r} was not in top {self.save_top_k}")
            return ""
        leaves = "" if self.save_top_k == -1 else ranking.worst
        path = self._agreed_path(trainer, metrics, leaves)
        self._tell(trainer, f"{self.monitor!r} reached {float(score):.5f}, saving {path}")
        if leaves != path:
            ranking.drop(leaves)
        ranking.add(path, score)
        self._request(trainer, path, leaves, before)
        return path

    def _save_last(self, trainer: TrainerAPI, metrics: dict[str, Any], saved: str, before: dict[str, Any]) -> None:
        ranking = self._ranking
        previous = ranking.last
        target = self._agreed_path(trainer, metrics, previous, template=self.CHECKPOINT_NAME_LAST)
        symbolic = self.save_last == "link" and self.save_top_k != 0
        source = ranking.newest if symbolic else saved
        whole = symbolic or not trainer.strategy.capabilities.sharded_parameters
        ranking.last = target
        if not source or self._folder.remote or not whole:
            ranking.keep(target)
            self._request(trainer, target, previous, before)
            return
        self._folder.writes(target)
        replaced = [previous] if previous not in ("", target) else []
        save = self._saves.unwritten(source)
        if save is not None:  # the link follows it
            save.links.append((target, symbolic))
            save.removes += replaced
            return
        self._link(trainer, source, target, symbolic)
        self._remove(trainer, replaced)

    def _request(self, trainer: TrainerAPI, path: str, leaves: str, before: dict[str, Any] | None) -> None:
        """Have ``path`` written, and then ``leaves`` deleted."""
        removes = [leaves] if leaves not in ("", path) else []
        for left in removes:
            self._ranking.drop(left)
        self._saves.add(path, PendingSave(removes=removes, before=before, step=trainer.global_step))
        self._last_global_step_saved = trainer.global_step
        self._ask(trainer, path)

    def _ask(self, trainer: TrainerAPI, path: str, **contents: Any) -> None:
        mark = self._folder.writes(path)
        trainer.request_save(path, owner=self, mark=mark, **{**self._contents, **contents})

    # ---- agreement and files -----------------------------------------------------------------------------------------

    @property
    def _folder(self) -> CheckpointFiles:
        assert self._files is not None
        return self._files

    def _files_of(self, trainer: TrainerAPI) -> CheckpointFiles:
        written = self._files.written if self._files is not None else ()
        return CheckpointFiles(self.dirpath or "", self._owner_id, trainer.checkpoint_io, written)

    def _agreed_score(self, trainer: TrainerAPI, score: Tensor) -> Tensor:
        value = float(trainer.strategy.broadcast(float(score)))
        if math.isnan(value):
            value = math.inf if self.mode == "min" else -math.inf
        return torch.tensor(value, dtype=score.dtype if score.is_floating_point() else None)

    def _agreed_path(self, trainer: TrainerAPI, metrics: dict[str, Any], may_replace: str, template: str = "") -> str:
        found = self._free_path(metrics, may_replace, template) if trainer.is_global_zero else ""
        return str(trainer.strategy.broadcast(found))

    def _free_path(self, metrics: dict[str, Any], may_replace: str, template: str) -> str:
        """Return a path where nothing stands but what this run may write over."""
        version: int | None = None
        while True:
            path = self.format_checkpoint_name(metrics, template or None, ver=version)
            if not self.enable_version_counter or self._is_free(path, may_replace):
                return path
            version = self.STARTING_VERSION if version is None else version + 1

    def _is_free(self, path: str, may_replace: str) -> bool:
        """Return whether ``path`` may be written. A resumed list names files too that are another run's by now."""
        if (path != may_replace and path in self.kept_paths()) or self._kept_by_others(path):
            return False
        return self._may_write(path)

    def _may_write(self, path: str) -> bool:
        files = self._folder
        return path in files.written or not files.exists(path) or files.owns(path)

    def kept_paths(self) -> set[str]:
        """Return the files of the ranking, the last one, and those that are asked for and not written yet."""
        return {*self._ranking.files, *self._saves.paths(), self._ranking.last} - {""}

    def _kept_by_others(self, path: str) -> bool:
        """Return whether another callback of this run keeps ``path``, however its folder is spelled there."""
        kept = [kept for other in self._others() for kept in other.kept_paths()]
        return not real_paths([path]).isdisjoint(real_paths(kept))

    def _others(self) -> list[Checkpoint]:
        callbacks = self._trainer.callbacks if self._trainer is not None else []
        return [cb for cb in callbacks if isinstance(cb, Checkpoint) and cb is not self]

    def _remove(self, trainer: TrainerAPI, paths: list[str]) -> None:
        for path in paths:
            if path not in self.kept_paths() and not self._delete(trainer, path) and not self._kept_by_others(path):
                self._left.add(path)

    def _delete(self, trainer: TrainerAPI, path: str) -> bool:
        """Delete ``path`` where it is this callback's alone; return whether it is. Rank 0 looks: others may see other
        links, or no such folder.
        """
        own = trainer.is_global_zero and not self._kept_by_others(path) and self._owns(path)
        own = bool(trainer.strategy.broadcast(own))
        if own:
            trainer.remove_checkpoint(path)
        return own

    def _owns(self, path: str) -> bool:
        """Return whether this callback wrote ``path``; or another one of the run, where they share their names."""
        others = [] if self.enable_version_counter else self._others()
        files = [cb._files for cb in (self, *others) if isinstance(cb, ModelCheckpoint)]
        return any(own is not None and own.owns(path) for own in files)

    def _link(self, trainer: TrainerAPI, source: str, target: str, symbolic: bool) -> None:
        """Put ``target`` in place as another name of ``source``, when that is complete."""
        if not trainer.is_global_zero:
            return
        io = trainer.checkpoint_io
        try:
            (io.point_last if symbolic else io.add_name)(source, target)
        except (CheckpointError, OSError) as error:
            warn(f"{target} could not be made from {source}: {error}. Training goes on.", code="LT635")

    def _take_over(self, trainer: TrainerAPI) -> None:
        """Finish what a killed predecessor had begun at the boundary that this run resumes from."""
        self._moved_from = trainer.strategy.broadcast(self._moved_from)
        self._forget_missing(trainer)
        if self._moved_from is not None:
            self._leave_behind()
        asks = trainer.is_global_zero and self.enable_version_counter
        links = [link for link in self._saves.links() if asks and not self._may_write(link)]
        for link in trainer.strategy.broadcast(links):  # by now another run's: the next one gets a name of its own
            self._saves.drop_link(link)
            self._ranking.last = "" if link == self._ranking.last else self._ranking.last
        for path in self._saves:
            if trainer.strategy.broadcast(trainer.is_global_zero and self._folder.exists(path)):
                self.on_saved(path)
            else:  # killed between two saves of one boundary, which is the boundary we stand at
                self._ask(trainer, path)

    def _forget_missing(self, trainer: TrainerAPI) -> None:
        """Forget files that are not there: deleted since by a run that went further, or by the user, or not copied."""
        if self._moved_from is not None:
            self._saves.clear()
        ranking, awaited, files = self._ranking, self._saves.awaited(), self._folder
        found = []
        if trainer.is_global_zero:
            found = [path for path in _paths_in(ranking) if path not in awaited and files.exists(path)]
            if self._moved_from is not None:  # a file of the same name there may be another run's
                found = [path for path in found if files.owns(path) or files.came_from(path, self._mark_before)]
            for path in found if self.save_top_k != -1 else {ranking.last}.intersection(found):
                files.owns(path)  # now, as later a background writer would have to be waited for
        here = awaited.union(trainer.strategy.broadcast(found))
        ranking.restore(ranking.snapshot(), lambda path: path if path in here else "")
        if self.monitor is not None:
            ranking.rank()
        elif not ranking.best:
            ranking.best = next((path for path in reversed(ranking.files) if path != ranking.last), "")

    def _leave_behind(self) -> None:
        warn(
            f"ModelCheckpoint: the resumed run kept its checkpoints in {self._moved_from}, this one writes to "
            f"{self.dirpath}. Those that are not there are left alone and count no more; those that came along "
            "count, and none of them is deleted.",
            code="LT632",
        )
        self._moved_from = None

    # ---- words -------------------------------------------------------------------------------------------------------

    def _tell(self, trainer: TrainerAPI, text: str) -> None:
        if self.verbose:
            trainer.print(f"Epoch {trainer.current_epoch}, global step {trainer.global_step}: {text}")

    def _report(self) -> str:
        ranking, files = self._ranking, self._folder

        def name_of(path: str) -> str:
            return files.name_of(path) or path

        parts = []
        if ranking.best:
            score = ranking.best_score
            told = f" ({self.monitor}={float(score):.5g})" if score is not None else ""
            parts.append(f"{'newest' if self.monitor is None else 'best'} {name_of(ranking.best)}{told}")
        count = len({*ranking.files} - {ranking.last})
        if count > 1:
            parts.append(f"{count} kept")
        if ranking.last:
            parts.append(f"last {name_of(ranking.last)}")
        if left := [path for path in self._left if files.exists(path)]:
            parts.append(f"{len(left)} not deleted, as they may not be this run's")
        return f"Checkpoints in {self.dirpath}: {', '.join(parts)}" if parts else ""


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder) / name)


def _paths_in(ranking: CheckpointRanking) -> set[str]:
    return {*ranking.files, ranking.best, ranking.worst, ranking.last, ranking.newest} - {""}
