"""The header of a checkpoint, in its first bytes: the run that wrote it, the time and the step.

The header is the first entry of the tree, so that it stands at the start of the file, where lt-checkpoint reads it
alone. A file of 0.1 or of Lightning has none; its step, and for 0.1 its run, are then taken from the rest of the tree.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lt_core.errors import warn

__all__ = ["FORMAT", "HEADER_KEY", "Contents", "Header", "warn_of_newer"]

FORMAT = 2
"""The number of the layout that this version writes; files of 0.1, which carry none, count as 1."""

HEADER_KEY = "lt_header"
"""Where the header stands in the tree."""


class Contents(NamedTuple):
    """The contents of a checkpoint, as the arguments of :meth:`TrainerAPI.save_checkpoint`."""

    weights_only: bool = False
    trainable_only: bool = False
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, weights_only: bool, trainable_only: bool, exclude: str | Iterable[str]) -> Contents:
        """Return the contents for a user's arguments: one pattern may stand without a list."""
        return cls(weights_only, trainable_only, (exclude,) if isinstance(exclude, str) else tuple(exclude))


class Header(NamedTuple):
    """The header of a checkpoint.

    Attributes:
        format: number of its layout; 1: a file of 0.1; 0: one of Lightning.
        run: the run that wrote it; a resumed run keeps the name, a new one has another. Empty where it is unknown.
        time: when it was written, in nanoseconds since 1970; None where the file does not say. It grows within a run,
            also where the clock was set back.
        step: optimizer steps taken.
        epoch: the last epoch begun.
        weights_only: it cannot be resumed from.
        mark: identifies the file to the callback that requested it (:meth:`TrainerAPI.request_save`); else empty.
    """

    format: int
    run: str
    time: int | None
    step: int
    epoch: int
    weights_only: bool
    mark: str = ""

    @classmethod
    def of_new_run(cls, task: str = "") -> Header:
        """Return the header of a run that has written nothing yet; its name says when and in which ``task``."""
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}{task}"
        return cls(FORMAT, run, 0, 0, 0, weights_only=False)

    def next(self, step: int, epoch: int, *, weights_only: bool) -> Header:
        """Return the header of a checkpoint that this run writes now; ``self`` is the one before."""
        return Header(FORMAT, self.run, max(time.time_ns(), (self.time or 0) + 1), step, epoch, weights_only)

    def resumed(self, found: Header | None) -> Header:
        """Return the header of a run resumed from a file with the header ``found``."""
        return self if found is None else found._replace(run=found.run or self.run)

    @classmethod
    def of(cls, tree: Mapping[Any, Any]) -> Header | None:
        """Return the header of a tree; None if it is no checkpoint or its header is malformed."""
        own = tree.get(HEADER_KEY)
        if isinstance(own, Mapping):
            values: Any = [own.get(name, cls._field_defaults.get(name)) for name in cls._fields]
            header = cls(*values)
            sound = all(type(number) is int for number in (header.format, header.step, header.epoch, header.time))
            sound = sound and type(header.run) is type(header.mark) is str and header.run.isprintable()
            return header if sound and type(header.weights_only) is bool else None
        step, epoch = tree.get("global_step"), tree.get("epoch")
        if type(step) is not int or type(epoch) is not int:
            return None
        # a file of 0.1 has the run in the state of its ModelCheckpoint, whose name resumed runs took over
        states = tree.get("callbacks")
        parts = states.values() if isinstance(states, Mapping) else ()
        found = [part.get("run_id") for part in parts if isinstance(part, Mapping)]
        run = next((run for run in found if isinstance(run, str)), "")
        return cls(int("lt_version" in tree), run, None, step, epoch, "optimizer_states" not in tree)

    @staticmethod
    def marked(tree: dict[str, Any], mark: str) -> dict[str, Any]:
        """Return ``tree`` with another ``mark`` in its header, where it has one; the header stays its first entry."""
        own = tree.get(HEADER_KEY)
        return {**tree, HEADER_KEY: {**own, "mark": mark}} if isinstance(own, Mapping) else tree

    def entry(self) -> dict[str, dict[str, Any]]:
        """Return the first entry of the tree."""
        return {HEADER_KEY: self._asdict()}


def warn_of_newer(tree: Mapping[Any, Any], path: object) -> None:
    """Say of a file that a newer version has written in a layout of its own that not all of it may be understood."""
    header = Header.of(tree)
    if header is not None and header.format > FORMAT:
        warn(
            f"{path} was written by a newer version of lt, in format {header.format}; this one knows {FORMAT} "
            "and older, and ignores entries that it does not know. Update lt before you go on from this file.",
            code="LT622",
        )
