"""The recorder behind ``self.log``. Loops that collect values bring their own; lt's is in lt-loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from torch import Tensor

__all__ = ["Given", "Recorder"]


class Given(NamedTuple):
    """The settings of a call of ``self.log``, as the user gave them."""

    prog_bar: bool = False
    logger: bool | None = None
    on_step: bool | None = None
    on_epoch: bool | None = None
    reduce_fx: str | Callable[[Tensor], Tensor] = "mean"
    enable_graph: bool = False
    sync_dist: bool | None = None
    sync_dist_group: Any = None
    add_dataloader_idx: bool = True
    metric_attribute: str | None = None
    rank_zero_only: bool = False

    def describe(self, before: tuple[Any, ...]) -> str:
        """Return the differences from ``before`` as text."""
        pairs = zip(self._fields, self, before, strict=True)
        return ", ".join(f"{name}={now!r} (was {then!r})" for name, now, then in pairs if now != then)


class LoggedName(Protocol):
    """The recorder's slot for one name."""

    given: Given

    def add(self, value: Any, batch_size: int | None) -> None:
        """Take one value."""


class Recorder:
    """Receives the calls of ``self.log``; this one keeps nothing.

    A call with the settings of the call before is a look into ``slots`` and an ``add``; all others go by
    :meth:`resolve`.

    Attributes:
        slots: the slot of each name in the present hook; None while nothing is collected.
        rank: number of this process in the job.
        deferred: calls of ``self.log`` that :meth:`log` makes later, such as calls in a compiled step; None
            where they are made now.
    """

    slots: Mapping[str, LoggedName] | None = None
    rank: int = 0
    deferred: list[tuple[str, Any, Given, int | None]] | None = None

    def resolve(self, name: str, given: Given, batch_size: int | None = None) -> LoggedName:
        """Return the slot for ``name``, or raise for a call that cannot be recorded."""
        return _Nothing()

    def log(self, name: str, value: Any, given: Given = Given(), batch_size: int | None = None) -> None:
        """Log as ``LightningModule.log`` does, which does the same with one call less."""
        if not (given.rank_zero_only and self.rank):
            self.resolve(name, given, batch_size).add(value, batch_size)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Return a context in which ``self.log`` does nothing."""
        yield


class _Nothing:
    given = Given()

    def add(self, value: Any, batch_size: int | None) -> None:
        pass
