"""What a checkpoint says of itself in its first bytes: which run wrote it, when, and at which step.

The header is the first entry of the tree, so that it stands at the start of the file. It is read by one short read,
without the tensors, by the same dry run that every load begins with: no code of the file runs. A file of 0.1 or of
Lightning has none; its step, and for 0.1 its run, are then taken from what its pickle holds.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lt_core.pickle_check import CutOffError, RefusedError, dry_run, first_item

__all__ = ["FORMAT", "HEADER_KEY", "REST_FILE", "Header", "read_header"]

FORMAT = 2
"""The number of the layout that this version writes; files of 0.1, which carry none, count as 1."""

HEADER_KEY = "lt_header"
"""Where the header stands in the tree."""

REST_FILE = "rest.ckpt"
"""The file in a sharded checkpoint's folder that holds everything but the tensors; the header is in it."""

_FIRST_BYTES = 4096
"""Bytes of the first read: the header of a file that has one is among them."""

_MOST_BYTES = 16 << 20
"""Bytes of a file without a header that are read for its step and run at most."""

_LOCAL = struct.Struct("<4s5H3L2H")


class Header(NamedTuple):
    """What a checkpoint says of itself.

    Attributes:
        format: number of its layout; 1: a file of 0.1; 0: one of Lightning.
        run: the run that wrote it; a resumed run keeps the name, a new one has another. Empty where it is unknown.
        time: when it was written, in nanoseconds since 1970; None where the file does not say. It grows within a run,
            also where the clock was set back.
        step: optimizer steps taken.
        epoch: the last epoch begun.
        weights_only: nothing is in it that a resume needs.
        mark: by what the callback that asked for it knows it again (:meth:`TrainerAPI.request_save`); else empty.
    """

    format: int
    run: str
    time: int | None
    step: int
    epoch: int
    weights_only: bool
    mark: str = ""

    @classmethod
    def of_new_run(cls) -> Header:
        """Return the header of a run that has written nothing yet; its name says when it began."""
        return cls(FORMAT, f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}", 0, 0, 0, weights_only=False)

    def next(self, step: int, epoch: int, *, weights_only: bool) -> Header:
        """Return the header of a checkpoint that this run writes now; ``self`` is the one before."""
        return Header(FORMAT, self.run, max(time.time_ns(), (self.time or 0) + 1), step, epoch, weights_only)

    def resumed(self, found: Header | None) -> Header:
        """Return the header from which a run goes on that resumes from a file with the header ``found``."""
        return self if found is None else found._replace(run=found.run or self.run)

    @classmethod
    def of(cls, tree: Mapping[Any, Any]) -> Header | None:
        """Return what a tree says of itself; None where it is no checkpoint, or its header is not as it should be."""
        own = tree.get(HEADER_KEY)
        if isinstance(own, Mapping):
            values: Any = [own.get(name, cls._field_defaults.get(name)) for name in cls._fields]
            found = cls(*values)
            return found if found._is_sound() else None
        step, epoch = tree.get("global_step"), tree.get("epoch")
        if type(step) is not int or type(epoch) is not int:
            return None
        return cls(int("lt_version" in tree), _run_of_0_1(tree), None, step, epoch, "optimizer_states" not in tree)

    @staticmethod
    def marked(tree: dict[str, Any], mark: str) -> dict[str, Any]:
        """Return ``tree`` with another ``mark`` in its header, where it has one; the header stays its first entry."""
        own = tree.get(HEADER_KEY)
        return {**tree, HEADER_KEY: {**own, "mark": mark}} if isinstance(own, Mapping) else tree

    def entry(self) -> dict[str, dict[str, Any]]:
        """Return what goes into the tree, as its first entry."""
        return {HEADER_KEY: self._asdict()}

    def _is_sound(self) -> bool:
        numbers = (self.format, self.step, self.epoch, self.time)
        return (
            all(type(number) is int for number in numbers)
            and type(self.run) is str
            and self.run.isprintable()
            and type(self.weights_only) is bool
            and type(self.mark) is str
        )


def read_header(read: Callable[[int, int], bytes]) -> Header | None:
    """Return what a checkpoint file says of itself; None where it says nothing, or cannot be understood.

    Args:
        read: returns the file's bytes between two offsets, fewer at its end.
    """
    size = _FIRST_BYTES
    data = read(0, size)
    begin = _pickle_begins(data)
    if begin is None:
        return None
    key, value = first_item(data, begin) or (None, None)
    if key == HEADER_KEY:
        return Header.of({HEADER_KEY: value})
    while True:
        try:
            root = dry_run(data, begin).root
        except CutOffError:
            if len(data) < size or size >= _MOST_BYTES:
                return None
            size *= 4
            data += read(len(data), size)
        except RefusedError:
            return None
        else:
            return Header.of(root) if isinstance(root, Mapping) else None


def _pickle_begins(data: bytes) -> int | None:
    """Return where the pickle begins in the first bytes of an archive of torch's, whose first record it is."""
    if len(data) < _LOCAL.size or data[:4] != b"PK\x03\x04":
        return None
    *_, named, more = _LOCAL.unpack_from(data)
    name = data[_LOCAL.size : _LOCAL.size + named]
    return _LOCAL.size + named + more if name.endswith(b"/data.pkl") else None


def _run_of_0_1(tree: Mapping[Any, Any]) -> str:
    """Return the run of a file of 0.1: its ModelCheckpoint's, which resumed runs took over."""
    states = tree.get("callbacks")
    for state in states.values() if isinstance(states, Mapping) else ():
        run = state.get("run_id") if isinstance(state, Mapping) else None
        if isinstance(run, str):
            return run
    return ""
