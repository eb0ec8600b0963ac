"""The saves of a ModelCheckpoint: what one ranks, names, writes and replaces."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lt_callbacks.checkpoint.base import Checkpoint
from lt_callbacks.checkpoint.naming import fill_template, is_remote, path_in
from lt_callbacks.checkpoint.ranking import CheckpointRanking
from lt_callbacks.checkpoint.store import CheckpointStore
from lt_callbacks.monitored import Monitor
from lt_core.interface import is_overridden
from lt_core.trainer import TrainerAPI


class RankedSaves(Checkpoint):
    """A callback that saves the state of a moment which a subclass chooses; its arguments are the subclass's."""

    CHECKPOINT_JOIN_CHAR = "-"
    CHECKPOINT_EQUALS_CHAR = "="
    CHECKPOINT_NAME_LAST = "last"
    FILE_EXTENSION = ".ckpt"
    STARTING_VERSION = 1
    monitor: str | None
    mode: str
    verbose: bool
    save_last: bool | str | None
    save_top_k: int
    save_weights_only: bool
    trainable_only: bool
    exclude: tuple[str, ...]
    filename: str | None
    dirpath: str | None
    auto_insert_metric_name: bool
    enable_version_counter: bool
    _lt_weights_ending: str

    def _lt_forget_fit(self) -> None:
        """Forget all files; the folder's count as another run's."""
        self._lt_store = CheckpointStore(
            CheckpointRanking(self.monitor, self.mode, self.save_top_k),
            shares_names=not self.enable_version_counter,
            weights_ending=self._lt_weights_ending,
        )
        self._lt_metric = Monitor("ModelCheckpoint", "it keeps no best checkpoint")
        self._lt_interrupted_at = self._lt_step_of_moment = -1
        self._last_global_step_saved = 0
        self._lt_before: dict[str, Any] = {}  # the ranking before the file in hand
        self._lt_saved = ""  # the file that this save has asked for
        self._lt_waits = False  # a save that is due, for the validation whose metric ranks it
        self._lt_in_first_step = False
        # of the run's newest state; None where some callback has it anyway
        self._lt_keeper: RankedSaves | None = None

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
            ConfigError: where the name leads out of the folder.
        """
        join, equals = self.CHECKPOINT_JOIN_CHAR, self.CHECKPOINT_EQUALS_CHAR
        template = filename or self.filename or f"{{epoch}}{join}{{step}}"
        insert = self.auto_insert_metric_name
        name = fill_template("ModelCheckpoint", template, metrics, insert_names=insert, equals=equals)
        name = join.join(([prefix] if prefix else []) + [name] + ([f"v{ver}"] if ver is not None else []))
        return path_in(self.dirpath or "", name + self.FILE_EXTENSION)

    def file_exists(self, filepath: str, trainer: TrainerAPI) -> bool:
        """Return whether rank 0 finds a file or folder there, on all ranks."""
        return bool(trainer.strategy.broadcast(trainer.is_global_zero and self._lt_store.exists(filepath)))

    def _save_checkpoint(self, trainer: TrainerAPI, filepath: str) -> None:
        """Write a checkpoint of this moment, complete when this returns.

        An override is called when a boundary is complete, on all ranks, in place of the loop's own writing: it calls
        this one, and then uses the file (an upload).
        """
        self._lt_write(trainer, filepath)

    def _lt_write(self, trainer: TrainerAPI, path: str) -> None:
        for file, contents in self._lt_files_of(path):
            trainer.save_checkpoint(file, **contents)

    @property
    def _lt_readable(self) -> CheckpointRanking:
        return self._lt_store.readable(self._save_checkpoint if self._lt_ranks_itself else self._lt_write)

    def _lt_write_due(self, trainer: TrainerAPI, path: str) -> None:
        if self._lt_store.begin(path):
            self._save_checkpoint(trainer, path)

    @property
    def _lt_saves_itself(self) -> bool:
        return is_overridden(self, "_save_checkpoint", RankedSaves) or self._lt_ranks_itself

    @property
    def _lt_ranks_itself(self) -> bool:
        return is_overridden(self, "_update_best_and_save", RankedSaves)

    def _lt_contents_of(self, path: str) -> dict[str, Any]:
        """The contents of a file as arguments of :meth:`TrainerAPI.request_save`, without defaults."""
        resumes = path in (self._lt_store.interrupted, self._lt_store.ranking.last if self._lt_keeper is self else "")
        asked = {
            "weights_only": self.save_weights_only and not resumes,
            "trainable_only": self.trainable_only,
            "exclude": self.exclude,
        }
        return {name: value for name, value in asked.items() if value}

    def _lt_files_of(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the files of one checkpoint with their contents, the weights alone first."""
        contents = self._lt_contents_of(path)
        if weights := self._lt_store.weights_path(path):
            yield weights, contents | {"weights_only": True, "mark": self._lt_store.mark(weights)}
        yield path, contents | {"mark": self._lt_store.mark(path)}

    # ---- saves -------------------------------------------------------------------------------------------------------

    # Existing subclasses override these methods of Lightning's; each is called where Lightning calls it.

    def _should_skip_saving_checkpoint(self, trainer: TrainerAPI) -> bool:
        fitting = trainer.stage == "fit" and not trainer.sanity_checking and not trainer.fast_dev_run
        return not fitting or self._last_global_step_saved == trainer.global_step

    def _monitor_candidates(self, trainer: TrainerAPI) -> dict[str, Any]:
        """Return the metrics to rank by and to name files with."""
        metrics: dict[str, Any] = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        for name, value in trainer.callback_metrics.items():
            metrics[name] = int(value) if name in metrics else value
        return metrics

    def _lt_save(self, trainer: TrainerAPI, top_k: bool) -> None:
        metrics = self._monitor_candidates(trainer)
        self._lt_before, self._lt_saved = self._lt_store.ranking.state_dict(), ""
        self._lt_step_of_moment = trainer.global_step
        if top_k:
            self._save_topk_checkpoint(trainer, metrics)
        self._save_last_checkpoint(trainer, metrics)
        keeper = self._lt_keeper
        if keeper is not None and keeper is not self and not keeper._should_skip_saving_checkpoint(trainer):
            step = keeper._last_global_step_saved
            keeper._lt_save(trainer, top_k=False)
            keeper._last_global_step_saved = step  # its own moment may be still to come

    @property
    def _lt_keeps_newest(self) -> bool:
        """Whether the newest state is among the files that it keeps, whole."""
        newest = self.save_last or self.save_top_k == -1 or (self.monitor is None and self.save_top_k)
        return bool(newest) and not self.save_weights_only

    @property
    def _lt_saves_last(self) -> bool:
        return bool(self.save_last) or self._lt_keeper is self

    def _save_topk_checkpoint(self, trainer: TrainerAPI, monitor_candidates: dict[str, Any]) -> None:
        if self.save_top_k != 0:
            save = self._save_none_monitor_checkpoint if self.monitor is None else self._save_monitor_checkpoint
            save(trainer, monitor_candidates)

    def _save_none_monitor_checkpoint(self, trainer: TrainerAPI, monitor_candidates: dict[str, Any]) -> None:
        leaves = self._lt_store.ranking.best if self.save_top_k == 1 else ""
        path = self._lt_agreed_path(trainer, monitor_candidates, leaves)
        self._lt_store.ranking.add(path, None)
        self._lt_request(trainer, path, leaves)

    def _save_monitor_checkpoint(self, trainer: TrainerAPI, monitor_candidates: dict[str, Any]) -> None:
        assert self.monitor is not None
        if self.monitor not in monitor_candidates:
            logged = [name for name in monitor_candidates if name not in ("epoch", "step")]
            if (error := self._lt_metric.lacking(trainer, self.monitor, logged)) is not None:
                raise error
            return
        value = torch.as_tensor(monitor_candidates[self.monitor])
        score = self._lt_store.ranking.current = self._lt_agreed_score(trainer, value)
        if self.check_monitor_top_k(trainer, score):
            self._update_best_and_save(score, trainer, monitor_candidates)
        else:
            self._lt_say(trainer, f"{self.monitor!r} was not in top {self.save_top_k}")

    def check_monitor_top_k(self, trainer: TrainerAPI, current: Tensor | None = None) -> bool:
        """Return whether a checkpoint with the metric ``current``, 0-dim and the same on all ranks, would be kept."""
        return current is not None and self._lt_store.ranking.takes(current)

    def _update_best_and_save(self, current: Tensor, trainer: TrainerAPI, monitor_candidates: dict[str, Any]) -> None:
        """Rank the state of this moment by ``current`` and have it written."""
        ranking = self._lt_store.ranking
        leaves = "" if self.save_top_k == -1 else ranking.worst
        path = self._lt_agreed_path(trainer, monitor_candidates, leaves)
        self._lt_say(trainer, f"{self.monitor!r} reached {float(current):.5f}, saving {path}")
        if leaves != path:
            ranking.drop(leaves)
        ranking.add(path, current)
        self._lt_request(trainer, path, leaves)

    def _save_last_checkpoint(self, trainer: TrainerAPI, monitor_candidates: dict[str, Any]) -> None:
        if not self._lt_saves_last:
            return
        ranking, saved = self._lt_store.ranking, self._lt_saved
        previous = ranking.last
        target = self._lt_agreed_path(trainer, monitor_candidates, previous, template=self.CHECKPOINT_NAME_LAST)
        symbolic = self.save_last == "link"
        whole = symbolic or not (trainer.strategy.capabilities.sharded_parameters or self._lt_saves_itself)
        ranking.last = target
        same = saved and self._lt_contents_of(saved) == self._lt_contents_of(target)
        if same and whole and not is_remote(target):
            self._lt_store.name_again(trainer, saved, target, symbolic, previous)
        else:
            ranking.keep(target)
            self._lt_request(trainer, target, previous)

    def _get_metric_interpolated_filepath_name(
        self, monitor_candidates: dict[str, Any], trainer: TrainerAPI, del_filepath: str | None = None
    ) -> str:
        """Return the file's path; asked on rank 0 alone."""
        return self._lt_free_path(monitor_candidates, del_filepath or "", "")

    def _lt_save_interrupted(self, trainer: TrainerAPI) -> str:
        """Save the state to resume from, unless this step is saved already; return the path or ``""``."""
        if self._should_skip_saving_checkpoint(trainer) or self.dirpath is None:
            return ""
        others = [cb for cb in self._lt_store.others() if isinstance(cb, RankedSaves) and cb.dirpath == self.dirpath]
        if any(cb._lt_interrupted_at == trainer.global_step for cb in others):  # one is enough
            return ""
        self._lt_interrupted_at = trainer.global_step
        path = self._lt_agreed_path(trainer, {}, self._lt_store.interrupted, template="interrupted")
        self._lt_store.interrupted = path
        self._lt_ask(trainer, path)
        return path

    def _lt_request(self, trainer: TrainerAPI, path: str, leaves: str) -> None:
        """Have ``path`` written, and then ``leaves`` deleted."""
        self._lt_store.expect(path, leaves, self._lt_before, trainer.global_step)
        self._last_global_step_saved, self._lt_saved = trainer.global_step, path
        self._lt_ask(trainer, path)
        if self._lt_ranks_itself and trainer.world_size > 1:  # it reads the path, and no rank can write it alone
            self._lt_store.write_ahead(trainer, self._save_checkpoint)

    def _lt_ask(self, trainer: TrainerAPI, path: str) -> None:
        for file, contents in self._lt_files_of(path):
            if not self._lt_saves_itself:
                trainer.request_save(file, owner=self, **contents)
            elif file == path:
                trainer.request_save(file, owner=self, write=partial(self._lt_write_due, trainer), **contents)

    def _lt_agreed_score(self, trainer: TrainerAPI, score: Tensor) -> Tensor:
        # ranks that differ in the last digit would keep different files
        value = float(trainer.strategy.broadcast(float(score)))
        # NaN is neither better nor worse than anything, and would never leave the ranking
        if math.isnan(value):
            value = math.inf if self.mode == "min" else -math.inf
        return torch.tensor(value, dtype=score.dtype if score.is_floating_point() else None)

    def _lt_agreed_path(
        self, trainer: TrainerAPI, metrics: dict[str, Any], may_replace: str, template: str = ""
    ) -> str:
        found = ""
        if trainer.is_global_zero:
            named = self._get_metric_interpolated_filepath_name
            found = (
                self._lt_free_path(metrics, may_replace, template) if template else named(metrics, trainer, may_replace)
            )
        return str(trainer.strategy.broadcast(os.fspath(found)))

    def _lt_free_path(self, metrics: dict[str, Any], may_replace: str, template: str) -> str:
        """Return a path that is free, or whose file this run may overwrite."""
        version: int | None = None
        while True:
            path = self.format_checkpoint_name(metrics, template or None, ver=version)
            if not self.enable_version_counter or self._lt_store.is_free(path, may_replace, renamed=bool(template)):
                return path
            version = self.STARTING_VERSION if version is None else version + 1

    def _lt_say(self, trainer: TrainerAPI, text: str) -> None:
        if self.verbose:
            trainer.print(f"Epoch {trainer.current_epoch}, global step {trainer.global_step}: {text}")
