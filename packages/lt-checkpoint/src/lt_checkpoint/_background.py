"""Saving in the background: training waits for a copy in memory only, a thread writes it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from lt_checkpoint._atomic_folder import StrPath
from lt_checkpoint._host_copy import HostCopies, num_bytes
from lt_checkpoint.wrapping import Wrapping
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import warn

__all__ = ["AsyncCheckpointIO", "available_memory"]

MEMORY_SHARE = 0.8
"""The part of the free memory that copies may take; for more, saving waits until the file is written."""


class AsyncCheckpointIO(Wrapping):
    """Copies the checkpoint into buffers that it keeps, and has a thread write it by another ``CheckpointIO``.

    Requests are served in order: a new save waits for the one before; links and removals take their turn, and
    are left out when the save before them has failed, so that nothing old goes before the new is there. Reading waits
    for the writer. Errors of the thread come out of :meth:`wait`, which must be called before the end. Folders to which
    every rank contributes are written in the background too, by a :class:`~lt_checkpoint.ShardedCheckpointIO` around
    this.

    Args:
        checkpoint_io: writes and reads; by default a :class:`~lt_checkpoint.TorchCheckpointIO`.
        max_memory: bytes that the copy may take in each process. A save that needs more, or more than four fifths of
            the free memory, is written before training goes on, without a copy, and warns.
    """

    _lt_errors: list[tuple[str, Exception]]
    _lt_held: int

    def __init__(self, checkpoint_io: CheckpointIO | None = None, *, max_memory: float = math.inf) -> None:
        super().__init__(checkpoint_io)
        self.max_memory = float(max_memory)  # refuses texts here, not at the first save
        self._lt_reset()

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        """Copy ``checkpoint`` and return; the file comes later. Waits for the save before, raises no error of it."""
        if self.begin(path, num_bytes(checkpoint)):
            copy = self.copied(checkpoint)
            self.later(path, partial(self.io.save_checkpoint, copy, path, storage_options))
        else:
            self.io.save_checkpoint(checkpoint, path, storage_options)

    def begin(self, path: StrPath, size: int) -> bool:
        """Wait for the save before, and return whether there is memory for a copy of the next one, ``size`` bytes."""
        self.settle()
        self._lt_save_failed = False
        room = min(self.max_memory, self._lt_held + MEMORY_SHARE * available_memory())
        fits = size <= room
        if not fits:
            warn(
                f"{path}: a copy of {size / 2**20:.0f} MiB does not fit the {room / 2**20:.0f} MiB that it may take "
                "(max_memory, and the free memory), so training waits until it is written.",
                code="LT654",
            )
            self._lt_copies.release()
        self._lt_held = size * fits
        return fits

    def copied(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of ``tree`` in buffers that are kept; it lives until the next call."""
        return self._lt_copies.take(tree)

    def later(self, path: StrPath, write: Callable[[], object]) -> None:
        """Have the thread call ``write``; its exception is the failure of the save of ``path``."""
        self._lt_queue(path, write, saves=True)

    def afterwards(self, act: Callable[..., None], *args: Any) -> None:
        """Have the thread call ``act(*args)`` when the saves before are complete; not if the last of them failed."""
        self._lt_queue(args[-1], partial(act, *args), saves=False)

    def remove_checkpoint(self, path: StrPath) -> None:
        """Delete the checkpoint at ``path`` when the saves before are complete; not if the last of them failed."""
        self.afterwards(self.io.remove_checkpoint, path)

    def point_last(self, target: StrPath, link: StrPath) -> None:
        """Make ``link`` lead to ``target`` when the saves before are complete; not if the last of them failed."""
        self.afterwards(self.io.point_last, target, link)

    def add_name(self, target: StrPath, name: StrPath) -> None:
        """Give ``target`` a second name when the saves before are complete; not if the last of them failed."""
        self.afterwards(self.io.add_name, target, name)

    def wait(self) -> None:
        """Return when all is written; raise the first failure since the last call, with the others as notes."""
        self.settle()
        self.io.wait()
        errors = [error for _, error in self._lt_errors]
        self._lt_errors, self._lt_save_failed = [], False
        if errors:
            for further in errors[1:]:
                errors[0].add_note(str(further))
            raise errors[0]

    def is_writing(self) -> bool:
        """Return whether the thread has something left to do."""
        return self._lt_process == os.getpid() and not all(job.done() for job in self._lt_jobs)

    def failures(self) -> dict[str, Exception]:
        """Wait, and return the failures since the last call or :meth:`wait`, by path."""
        self.settle()
        found = {**self.io.failures(), **dict(self._lt_errors)}
        self._lt_errors, self._lt_save_failed = [], False
        return found

    def teardown(self) -> None:
        """Wait, then give back the thread and the buffers."""
        try:
            self.wait()
        finally:
            if self._lt_pool is not None:
                self._lt_pool.shutdown()
            self._lt_copies.release()
            self._lt_reset()
            self.io.teardown()

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings alone: threads and buffers stay in their process."""
        return {"io": self.io, "max_memory": self.max_memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lt_reset()

    def _lt_reset(self) -> None:
        self._lt_copies = HostCopies()
        self._lt_held = 0
        self._lt_pool: ThreadPoolExecutor | None = None
        self._lt_process = os.getpid()
        self._lt_jobs: list[Future[None]] = []
        self._lt_errors = []
        self._lt_save_failed = False

    def _lt_queue(self, path: StrPath, act: Callable[[], object], *, saves: bool) -> None:
        # one thread, so that a file is complete before its link, and new files come before old ones go
        self._lt_pool = self._lt_pool or ThreadPoolExecutor(1, "lt-checkpoint")
        self._lt_jobs.append(self._lt_pool.submit(self._lt_do, path, act, saves))

    def _lt_do(self, path: StrPath, act: Callable[[], object], saves: bool) -> None:
        # after a failed save the older file may be the only one: no link is moved and nothing deleted
        if self._lt_save_failed and not saves:
            return
        try:
            act()
        except Exception as error:
            self._lt_save_failed |= saves
            self._lt_errors.append((str(path), error))

    def settle(self) -> None:
        """Wait for all jobs; their errors stay for :meth:`wait`."""
        if self._lt_process != os.getpid():
            self._lt_reset()  # a forked child: the thread is its parent's
        for job in self._lt_jobs:
            job.result()
        self._lt_jobs.clear()


def available_memory() -> float:
    """Return the bytes of memory that this process may still take, infinite where the system does not say.

    By hand, since ``psutil`` reports the machine's memory and not a container's limit.
    """
    free = 1024 * _number_in("/proc/meminfo", "MemAvailable:")
    limit, used = (_number_in(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    # the kernel counts cached files as used, and gives their memory up when it is needed
    cached = _number_in("/sys/fs/cgroup/memory.stat", "inactive_file")
    # without a limit the second is infinite, or no number, which min passes over where it is not the first
    return max(0, min(free, limit - used + cached))


def _number_in(path: str, name: str = "") -> float:
    """Return the number in a file of the kernel, after ``name`` where it has several; infinite without it."""
    try:
        words = Path(path).read_text(encoding="ascii").split()
        return int(words[words.index(name) + 1 if name else 0])
    except (OSError, ValueError, IndexError):
        return math.inf
