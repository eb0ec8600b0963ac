"""Calls of ``self.log``: their names, the size of their batch, and calls that are made later or never."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from lt_core.errors import LogError
from lt_core.logging.recorder import Given


def check_name(name: object, phase: str) -> None:
    """Refuse a name that loggers cannot take as a column, a file and a path."""
    parts = name.replace("\\", "/").split("/") if isinstance(name, str) and name.isprintable() else [""]
    if not parts[0] or ".." in parts:
        raise LogError(
            f"self.log({name!r}) in {phase!r}: names become columns, files and paths in loggers. Expected a non-empty "
            "string of printable characters, without line breaks, without a leading '/' and without '..', got "
            f"{name!r} ({type(name).__name__}).",
            code="LT505",
        )


def counts(batch: Any, samples: int) -> bool:
    """Return whether a batch whose tensors begin with another size holds so many samples: in a list, or time first."""
    if isinstance(batch, Tensor):
        return batch.shape[1:2] == (samples,)
    parts = list(batch.values()) if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else []
    lists = [part for part in (batch, *parts) if isinstance(part, list | tuple)]
    return samples in map(len, lists) or (bool(parts) and all(counts(part, samples) for part in parts))


class Size(int):
    """The size of a batch, in its place."""


class Deferred:
    """Stands where a slot does, for a call that is made later."""

    def __init__(self, calls: list[tuple[str, Any, Given, int | None]], name: str, given: Given) -> None:
        self.given, self._calls, self._name = given, calls, name

    def add(self, value: Any, batch_size: int | None) -> None:
        self._calls.append((self._name, value, self.given, batch_size))


DROPPED: Any = deque(maxlen=0)
"""Keeps no call: for batches that stand in for no sample."""
