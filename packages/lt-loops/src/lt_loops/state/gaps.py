"""What a checkpoint lacks because an optional part failed: the rest is written all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from lt_core.errors import CheckpointError, from_signal_handler
from lt_core.files.plain_data import plain_tree


def listed(gaps: Mapping[str, str]) -> str:
    """Return missing parts, each with why, as a message says it."""
    return "; ".join(f"{part} ({why})" for part, why in gaps.items())


class Gaps:
    """Collects the parts that could not be saved.

    Weights, optimizers, schedulers, counters and what a strategy keeps are not optional: their errors are raised.

    Attributes:
        found: the reason for each missing part, by a name for people; the checkpoint's key ``gaps``.
        objects: whether the file may hold any object, not plain data alone.
        error: the first exception of the user's own code, which is raised when the checkpoint is written; None for
            failures of loggers, and for what is no plain data.
    """

    def __init__(self, *, objects: bool = False) -> None:
        self.found: dict[str, str] = {}
        self.error: Exception | None = None
        self.objects = objects

    def optional(self, part: str, make: Callable[[], Any], *, logger: bool = False) -> Any:
        """Return what ``make`` returns; None where it fails or returns what cannot be saved."""
        try:
            value = make()
            if not self.objects:
                plain_tree(value, part)
        except Exception as error:
            if from_signal_handler(error):
                raise
            self.found[part] = f"{type(error).__name__}: {error}"
            if not logger and not isinstance(error, CheckpointError):
                self.error = self.error or error
            return None
        return value

    @contextmanager
    def checks_added(self, tree: dict[str, Any]) -> Iterator[None]:
        """Leave out what hooks add meanwhile to a checkpoint, or to its callbacks' states, and cannot be saved."""
        tables = [tree, tree["callbacks"]]
        before = [set(table) for table in tables]
        yield
        for table, known in zip(tables, before, strict=True):
            for key in [key for key in table if key not in known]:
                self.optional(f"the key {key!r}", partial(table.get, key))
                if f"the key {key!r}" in self.found:
                    del table[key]
