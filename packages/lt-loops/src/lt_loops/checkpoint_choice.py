"""Which file ``ckpt_path`` means: a path, ``"best"``, ``"last"`` or ``"auto"``."""

from __future__ import annotations

import contextlib
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lt_core.errors import CheckpointError, ConfigTypeError, did_you_mean, warn
from lt_core.remote_file import is_remote
from lt_loops.problems import a

if TYPE_CHECKING:
    from lt_loops.trainer import Trainer

__all__ = ["choose_checkpoint"]


def choose_checkpoint(trainer: Trainer, ckpt_path: str | PathLike[str] | None, stage: str) -> str | None:
    """Return the path of the checkpoint that a run starts from, or None for none.

    Args:
        trainer: whose checkpoint callbacks know the files.
        ckpt_path: a path; ``"best"`` (by the monitored metric), ``"last"`` (the newest), ``"auto"`` (the newest if
            there is one, else none: for jobs that a scheduler starts again).
        stage: the run, for the error.

    Raises:
        ConfigTypeError: for what is no path.
        CheckpointError: for ``"best"`` or ``"last"`` where there is none.
    """
    if ckpt_path is None:
        return None
    if not isinstance(ckpt_path, (str, PathLike)):
        raise ConfigTypeError(
            f"{stage}(ckpt_path={ckpt_path!r}): expected a path, 'best', 'last' or 'auto'; received {a(ckpt_path)}.",
            code="LT135",
        )
    word = fspath(ckpt_path)
    if word == "best":
        return _best(trainer, stage)
    if word in ("last", "auto", "hpc"):
        newest = _newest(trainer)
        if newest is None and word == "last":
            raise CheckpointError(
                f"{stage}(ckpt_path='last'): no checkpoint found in {_folders(trainer) or 'any known folder'}. Pass a "
                "path, or ckpt_path='auto' to start anew where there is none.",
                code="LT611",
            )
        return newest
    near = did_you_mean(word, _WORDS)
    if near and not trainer.checkpoint_io.exists(word) and not Path(word).exists():
        raise CheckpointError(f"{stage}(ckpt_path={word!r}): there is no such file.{near}", code="LT611")
    return word


_WORDS = ("best", "last", "auto")
"""What ``ckpt_path`` may be beside a path."""


def _best(trainer: Trainer, stage: str) -> str:
    callback: Any = trainer.checkpoint_callback
    if callback is None:
        raise CheckpointError(
            f"{stage}(ckpt_path='best'): this Trainer has no ModelCheckpoint callback that would know the best one. "
            "Pass a path.",
            code="LT612",
        )
    best: str = callback.best_model_path
    if not best:
        why = "fast_dev_run saves no checkpoint. Leave ckpt_path out" if trainer.fast_dev_run else ""
        why = why or "no checkpoint was saved yet. Call fit first"
        raise CheckpointError(f"{stage}(ckpt_path='best'): {why}, or pass a path.", code="LT612")
    return best


def _newest(trainer: Trainer) -> str | None:
    """Return the newest complete checkpoint that this Trainer's earlier runs wrote; damaged ones are named and passed
    over.
    """
    for path in _candidates(trainer):
        try:
            trainer.strategy.verify_checkpoint(trainer.checkpoint_io, path)
        except CheckpointError as error:
            warn(f"{error} The next older checkpoint is taken.", code="LT613")
            continue
        return path
    return None


def _candidates(trainer: Trainer) -> list[str]:
    """Return checkpoint files, newest first, those of one moment by name; a link counts as what it leads to."""
    local: list[str] = [path for cb in trainer.checkpoint_callbacks if (path := getattr(cb, "last_model_path", ""))]
    files: dict[str, int] = {}
    for folder in _folders(trainer):
        files |= trainer.checkpoint_io.times(folder)
    for path in local:
        with contextlib.suppress(FileNotFoundError):  # the other processes of a job may delete it just now
            files[str(Path(path).resolve())] = Path(path).stat().st_mtime_ns
    return sorted(files, key=lambda path: (files[path], path), reverse=True)


def _folders(trainer: Trainer) -> list[str]:
    """Return where this Trainer's checkpoints lie: named folders, else those of all versions of its logger."""
    writers: list[Any] = list(trainer.checkpoint_callbacks)
    folders = {str(cb.dirpath) for cb in writers if getattr(cb, "dirpath", None)}
    if any(getattr(cb, "dirpath", None) is None for cb in writers):
        roots = [logger.root_dir for logger in trainer.loggers if logger.root_dir]
        folders |= {str(path) for root in roots for path in Path(root).glob("*/checkpoints")}
        root = trainer.default_root_dir
        folders.add(f"{root.rstrip('/')}/checkpoints" if is_remote(root) else str(Path(root, "checkpoints")))
    return sorted(folders)
