"""Which file ``ckpt_path`` means: a path, ``"best"``, ``"last"`` or ``"auto"``."""

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from lt_core.checkpoint import is_remote
from lt_core.errors import CheckpointError, ConfigTypeError, MissingCheckpointError, did_you_mean, warn
from lt_core.files.checkpoint_header import Header
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.problems import type_name
from lt_loops.state.origin import array_task

_REQUESTS_AT_A_TIME = 8
"""Headers behind URLs that are read together."""


def choose_checkpoint(
    trainer: TrainerAPI, ckpt_path: str | PathLike[str] | None, stage: str, *, fitted: bool = False
) -> str | None:
    """Return the path of the checkpoint that a run starts from, or None for none.

    Where this process is one of several, it is rank 0's choice that counts (:func:`agreed_choice`): there a word
    for which nothing was found, or rank 0 is to look, is returned as it is.

    Args:
        trainer: whose checkpoint callbacks know the files.
        ckpt_path: a path; ``"best"`` (by the monitored metric), ``"last"`` (the newest), ``"auto"`` (the newest; in
            ``fit`` none where there is none: for jobs that a scheduler starts again).
        stage: the run: only ``fit`` begins without a checkpoint.
        fitted: whether this Trainer has fitted before.

    Raises:
        ConfigTypeError: for a value that is no path.
        CheckpointError: for ``"best"``, ``"last"`` or ``"hpc"`` where there is none, and for ``"auto"`` outside of
            ``fit``.
    """
    if ckpt_path is None:
        return None
    if not isinstance(ckpt_path, (str, PathLike)):
        raise ConfigTypeError(
            f"{stage}(ckpt_path={ckpt_path!r}): expected a path, 'best', 'last' or 'auto'; received "
            f"{type_name(ckpt_path)}.",
            code="LT135",
        )
    word, strategy = fspath(ckpt_path), trainer.strategy
    of_several = strategy.world_size > 1 and strategy.environment.processes_exist
    if of_several and strategy.rank and word in _NEWEST and not fitted:  # a second fit may go on from it
        return word  # a folder on an object store is read by one process, not by hundreds
    try:
        return _meant(trainer, word, stage)
    except CheckpointError:
        if of_several:
            return word
        raise


def agreed_choice(
    trainer: TrainerAPI, chosen: str | None, word: str, header: Header, stage: str
) -> tuple[str | None, Header]:
    """Return, on every rank, the checkpoint that rank 0 chose, and its run: ranks may see different files in a folder.

    ``chosen`` is the result of :func:`choose_checkpoint` for ``word`` here; ``header`` says which run this is.

    Raises:
        CheckpointError: on every rank, where rank 0 found none.
    """
    strategy = trainer.strategy
    if strategy.world_size == 1:
        return strategy.broadcast((chosen, header))  # type: ignore[no-any-return]
    trainer.checkpoint_io.wait()  # a file that rank 0 still writes must be there before others look for it
    error: CheckpointError | None = None
    if strategy.environment.restart_count and word in _NEWEST:
        chosen = word  # a launcher that retries chose before the first attempt
    if strategy.rank == 0 and chosen is not None:
        try:
            chosen = _meant(trainer, chosen, stage)
        except CheckpointError as caught:
            error = caught
    said = None if error is None else (type(error), error.message, error.code)
    chosen, header, said = strategy.broadcast((chosen, header, said))
    if error is not None:
        raise error
    if said is not None:
        raise said[0](said[1], code=said[2])
    return chosen, header


def _meant(trainer: TrainerAPI, word: str, stage: str) -> str | None:
    """Return the path that ``word`` means; a path means itself."""
    if word == "best":
        return _best(trainer, stage)
    if word not in _NEWEST:
        near = did_you_mean(word, ("best", "last", "auto"))
        if near and not trainer.checkpoint_io.exists(word) and not Path(word).exists():
            raise MissingCheckpointError(f"{stage}(ckpt_path={word!r}): there is no such file.{near}", code="LT611")
        return word
    newest = _newest(trainer, stage, array_task() if word == "auto" else "")
    if newest is None and (word != "auto" or stage != "fit"):
        remedy = ", or ckpt_path='auto' to start anew where there is none" if stage == "fit" else ", or call fit first"
        raise MissingCheckpointError(
            f"{stage}(ckpt_path={word!r}): no checkpoint found in {_folders(trainer) or 'any known folder'}. Pass a "
            f"path{remedy}.",
            code="LT611",
        )
    return newest


_NEWEST = ("last", "auto", "hpc")
"""Words for the newest checkpoint; the third is Lightning's."""

WORDS = ("best", *_NEWEST)
"""Words for a checkpoint in place of its path."""


WRITERS = ("checkpoint", "exception_checkpoint")
"""Roles of callbacks that write checkpoints."""


def _best(trainer: TrainerAPI, stage: str) -> str:
    found: list[Any] = [callback for callback in trainer.callbacks if callback.role == "checkpoint"]
    if not found:
        raise CheckpointError(
            f"{stage}(ckpt_path='best'): this Trainer has no ModelCheckpoint callback that would know the best one. "
            "Pass a path.",
            code="LT612",
        )
    best: str = found[0].best_model_path
    if any(getattr(callback, "monitor", None) for callback in found[1:]):
        warn(
            f"{stage}(ckpt_path='best') takes the first of {len(found)} ModelCheckpoint callbacks. For another one's "
            "pass its best_model_path.",
            code="LT248",
        )
    if not best:
        why = "fast_dev_run saves no checkpoint. Leave ckpt_path out" if trainer.fast_dev_run else ""
        why = why or "no checkpoint was saved yet. Call fit first"
        raise CheckpointError(f"{stage}(ckpt_path='best'): {why}, or pass a path.", code="LT612")
    return best


def _newest(trainer: TrainerAPI, stage: str, task: str) -> str | None:
    """Return the newest complete checkpoint that this Trainer's earlier runs wrote; damaged ones are named and passed
    over, on the rank whose choice counts. Where ``task`` names one of an array, only its own runs' files count.
    """
    io = trainer.checkpoint_io
    files: dict[str, int] = {}  # with the time of each, in nanoseconds
    for folder in _folders(trainer):
        files |= io.times(folder)
    for callback in _writers(trainer):
        if path := getattr(callback, "last_model_path", ""):
            with contextlib.suppress(OSError):  # other processes of a job may delete it just now, or link it to itself
                files[os.path.realpath(path)] = Path(path).stat().st_mtime_ns
    if any(map(is_remote, files)):
        with ThreadPoolExecutor(_REQUESTS_AT_A_TIME, "lt-headers") as pool:
            headers = dict(zip(files, pool.map(io.header, files), strict=True))
    else:
        headers = {path: io.header(path) for path in files}
    ordered = newest_first(files, headers, resuming=stage == "fit")
    own = [path for path in ordered if (header := headers[path]) is not None and header.run.endswith(task)]
    if task and ordered and not own:
        warn(
            f"ckpt_path='auto' in task {task[1:]} of an array of SLURM: {ordered[0]} and what else is there are of "
            "other jobs or tasks, and are not taken; a fit begins anew. Pass a path, or 'last' for the newest of all.",
            code="LT766",
        )
    for path in own if task else ordered:
        try:
            if trainer.strategy.rank == 0:
                trainer.strategy.verify_checkpoint(io, path)
        except CheckpointError as error:
            if os.path.lexists(path) or io.exists(path):  # another process may have deleted it
                warn(f"{error} The next older checkpoint is taken.", code="LT613")
            continue
        return path
    return None


def newest_first(files: Mapping[str, int], headers: Mapping[str, Header | None], *, resuming: bool) -> list[str]:
    """Return files in the order in which they were written, the newest first, by their own headers.

    - A file that holds its time of writing goes by that; of one moment the higher step is the newer. Beside other runs
      no time counts that is still to come, as its host's clock was ahead, but the file's own, or its run's before.
    - Files of 0.1 hold their run and step, and no time: a run's go by step, and as a whole by its newest file's time;
      all are older than files of a later version in the same run.
    - All others go by the file's time, then by their step.

    Args:
        files: the time of each file, in nanoseconds.
        headers: of each file; None where it has none.
        resuming: files that hold weights only come last: no training resumes from them.
    """
    now, timed, untimed = time.time_ns(), defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    said = {path: files[path] if each is None or each.time is None else each.time for path, each in headers.items()}
    moments = {path: next((time for time in (said[path], files[path]) if time <= now), 0) for path in files}
    for path in sorted(files, key=said.__getitem__):
        if (header := headers[path]) is not None and header.run:
            (untimed if header.time is None else timed)[header.run].append(path)
    for paths in timed.values():
        for before, path in pairwise(paths):
            moments[path] = max(moments[path], moments[before])
    for run, paths in untimed.items():
        newest = max(moments[path] for path in paths)
        moment = min([newest, *(moments[path] - 1 for path in timed[run][:1])])
        moments.update(dict.fromkeys(paths, moment))
        said.update(dict.fromkeys(paths, moment))

    def age(path: str) -> tuple[bool, int, int, int, int, str]:
        header = headers[path]
        resumes = not resuming or header is None or not header.weights_only
        return resumes, moments[path], said[path], -1 if header is None else header.step, files[path], path

    return sorted(files, key=age, reverse=True)


def _writers(trainer: TrainerAPI) -> list[Any]:
    return [callback for callback in trainer.callbacks if callback.role in WRITERS]


def _folders(trainer: TrainerAPI) -> list[str]:
    """Return where this Trainer's checkpoints lie: named folders, else the folders of all versions of its logger."""
    writers = _writers(trainer)
    folders = {str(cb.dirpath) for cb in writers if getattr(cb, "dirpath", None)}
    if any(getattr(cb, "dirpath", None) is None for cb in writers):
        root = trainer.default_root_dir
        # where a logger names no folder, they have its name and version
        placed = [each for each in trainer.loggers if each.root_dir or each.save_dir or each.name or each.version]
        roots = {each.root_dir or Path(each.save_dir or root, str(each.name or "")) for each in placed}
        patterns = ("*/checkpoints", "*/*/checkpoints")  # the second: of a logger with a folder of its own in the run's
        folders |= {str(path) for each in roots for pattern in patterns for path in Path(each).glob(pattern)}
        folders.add(f"{root.rstrip('/')}/checkpoints" if is_remote(root) else str(Path(root, "checkpoints")))
    return sorted(folders)
