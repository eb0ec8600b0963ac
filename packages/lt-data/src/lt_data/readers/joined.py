"""Loaders that the ranks shard by themselves and that end at different batches: all go on until the last one ends."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from lt_core.batch import batch_size_of, map_batch
from lt_core.errors import DataError, warn
from lt_core.strategy import Shard
from lt_data.reader import Reader, State
from lt_data.resume.loader_copy import copied

Gather = Callable[[Any], list[Any]]

_END = object()
_KIND = "joined "


class _Course(NamedTuple):
    """A rank's epoch in advance: batches, samples in a full batch and in all (None if unknown)."""

    batches: int
    size: int | None
    total: int | None

    def samples(self, step: int) -> int:
        """Return the samples of batch ``step``; where they are unknown all batches count the same."""
        if self.size is None or self.total is None:
            return int(step < self.batches)
        return max(min(self.size, self.total - step * self.size), 0) if step < self.batches else 0


def join(reader: Reader, gather: Gather, *, exact: bool) -> Reader:
    """Return ``reader``, or a wrapper with which all ranks take equally many steps.

    Where every rank knows its number of batches and they are the same, nothing is done. Called on every rank.

    Args:
        reader: of this rank's part, which no other rank reads.
        gather: returns every rank's value.
        exact: True in training.
    """
    joined = JoinedReader(reader, gather, exact=exact)
    trusted = joined.courses is not None and not joined.streams
    return reader if trusted and len({course.batches for course in joined.courses or ()}) == 1 else joined


class JoinedReader(Reader):
    """Reads another reader until it has ended on all ranks; a rank that is done takes part with stand-ins of weight 0.

    A batch weighs ``n_r * W / N``, for its samples among all in the same step. Where lengths are known, the ranks
    exchange them once an epoch. Where one is not, they exchange before each step how many samples they have: a small
    message on the host.

    The state is the other reader's, and how many batches of its own this rank has read.
    """

    uneven = True
    parcels = True

    def __init__(self, reader: Reader, gather: Gather, *, exact: bool) -> None:
        """Read ``reader``; for the arguments see :func:`join`."""
        self.reader, self.exact = reader, exact
        self.kind = _KIND + reader.kind
        self.shard, self.ahead, self.begins = reader.shard, reader.ahead, reader.begins
        self.unwrap = self._unwrap
        self._loader = loader = getattr(reader, "loader", None)
        self.streams = not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset)
        self._counted = isinstance(getattr(loader, "collate_fn", None), _Counting)
        self._gather = gather
        self._token = secrets.token_hex(8)
        self._rank = 0
        self._mine = 0
        self._stand_in: Any = _END
        self.courses = self._agree()

    def _agree(self) -> list[_Course] | None:
        """Return every rank's course; None where one does not know its own. Learns this rank's number."""
        length, reader = self.reader.length, self.reader
        if self.streams and getattr(self._loader, "num_workers", 0) > 1:
            length = None  # workers that split the data may each end with a partial batch
        mine = None if length is None else (length, reader.samples(1), reader.samples(length))
        said = self._gather((self._token, mine))
        self._rank = [token for token, _ in said].index(self._token)
        courses = [_Course(*course) for _, course in said if course is not None]
        return courses if len(courses) == len(said) else None

    @property
    def length(self) -> int | None:
        return None if self.courses is None else max(course.batches for course in self.courses)

    def set_epoch(self, epoch: int) -> None:
        if self.courses is not None:
            self.courses = self._agree()

    def accepts(self, kind: str, shard: Shard) -> bool:
        return kind.startswith(_KIND) and self.reader.accepts(kind.removeprefix(_KIND), shard)

    # ---- an epoch ----------------------------------------------------------------------------------------------------

    def batch_size(self, batches: int) -> int | None:
        return self.reader.batch_size(self._mine)

    def begin(self, epoch: int) -> Iterator[Any]:
        self._mine = 0
        return self._rounds(self.reader.begin(epoch), 0)

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        self._mine = state["mine"]
        return self._rounds(self.reader.resume(epoch, state["source"], self._mine), batches)

    def state(self, batches: int) -> State:
        return {"source": self.reader.state(self._mine), "mine": self._mine}

    def rest_state(self) -> State:
        return self.reader.rest_state()

    def rest(self, state: State) -> None:
        self.reader.rest(state.get("source", state))

    def leave(self, finished: bool) -> None:
        self._stand_in = _END
        self.reader.leave(finished)

    def close(self) -> None:
        self.reader.close()

    def advice(self) -> str:
        return self.reader.advice()

    def content(self, item: Any) -> Any:
        inner, _, real = item
        if not real:
            return None
        batch = self.reader.content(inner)
        return batch[0] if self._counted else batch

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _rounds(self, items: Iterator[Any], start: int) -> Iterator[list[Any]]:
        """Yield ``[item, weight, whether it is one]`` for each step from ``start`` on."""
        item: Any = None
        for step in count(start):
            item = _END if item is _END else next(items, _END)
            samples = self._note(item)
            sizes = self._sizes(step, samples, first=step == start)
            if not any(sizes):
                if item is not _END:
                    warn(
                        f"{type(self._loader).__name__} goes on after the {step} batches of its length; the "
                        "rest is left out, as the other ranks are done.",
                        code="LT411",
                    )
                return
            if item is _END:
                yield [self._stand_in, 0.0, False]
            else:
                yield [item, sizes[self._rank] * len(sizes) / sum(sizes) if self.exact else 1.0, True]

    def _note(self, item: Any) -> int:
        """Keep a batch that can stand in when this rank is done; return its samples."""
        if item is _END:
            return 0
        batch, samples = self.reader.content(item), 1
        if self._counted:
            batch, samples = batch
        elif self.courses is None:
            samples = max(batch_size_of(batch, warns=False), 1)  # without a DataLoader the tensors tell the size
        self._stand_in = batch
        return samples

    def _sizes(self, step: int, samples: int, *, first: bool) -> list[int]:
        """Return how many samples each rank has in this step; all 0 where the epoch is over."""
        if self.courses is not None:
            sizes = [course.samples(step) for course in self.courses]
            lack = first and not all(sizes)
        else:
            said = self._gather(-1 if self._stand_in is _END else samples)
            sizes = [max(size, 0) for size in said]
            lack = -1 in said
        if lack and any(sizes):
            self._share_stand_in(sizes)
        if self._stand_in is _END and any(sizes):
            raise DataError(
                f"The loader gave no batch, but says that it has {sizes[self._rank] and self.reader.length}. Is its "
                "data empty, or a generator spent?",
                code="LT410",
            )
        return sizes

    def _share_stand_in(self, sizes: list[int]) -> None:
        """Have the first rank with a batch give it to those whose data is empty, or had ended before a resume."""
        gives = self._rank == next(rank for rank, size in enumerate(sizes) if size)
        said = self._gather(map_batch(_on_host, self._stand_in) if gives and self._stand_in is not _END else None)
        if self._stand_in is _END:
            self._stand_in = next((batch for batch in said if batch is not None), _END)

    def _unwrap(self, item: list[Any]) -> Any:
        batch, self.weight, real = item
        if not real:
            return batch
        self._mine += 1
        if self.reader.unwrap is not None:
            batch = self.reader.unwrap(batch)
        return batch[0] if self._counted else batch


@dataclass
class _Counting:
    """A collate function that says how many samples its batch is made of: ``[batch, samples]``."""

    collate: Callable[[Any], Any]
    lone: bool

    def __call__(self, samples: Any) -> list[Any]:
        return [self.collate(samples), 1 if self.lone else len(samples)]


def counting(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return ``loader`` with batches that say how many samples they hold, for a :class:`JoinedReader` to read."""
    return copied(loader, collate_fn=_Counting(loader.collate_fn, loader.batch_sampler is None))


def _on_host(part: Any) -> Any:
    return part.cpu() if isinstance(part, Tensor) else part
