"""``CombinedLoader``: several loaders read as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from lt_core.data import Feed, holds_loaders, length_of, set_epoch
from lt_core.errors import ConfigError, DataError, did_you_mean
from lt_data.shards import seed_for

__all__ = ["MODES", "CombinedLoader", "map_tree"]

MODES = ("min_size", "max_size", "max_size_cycle", "sequential", "weighted")

Turn = tuple[Any, int, int]
"""A batch, its number, and the number of the loader that it is from (0 where it is from all)."""


class CombinedLoader:
    """Reads several loaders together, for training or evaluation.

    ::

        for batch, batch_idx, dataloader_idx in CombinedLoader({"a": loader_a, "b": loader_b}, "max_size_cycle"):
            batch["a"], batch["b"]

    - ``"min_size"``: a batch of each; ends with the shortest.
    - ``"max_size"``: a batch of each; ends with the longest, and shorter ones give None.
    - ``"max_size_cycle"``: a batch of each; ends with the longest, and shorter ones start anew.
    - ``"sequential"``: one loader after the other.
    - ``"weighted"``: in each turn one loader, chosen at random by ``weights``; ends when each was read to its end once,
      and loaders that ended before start anew. The choice is a function of ``seed`` and epoch, not of the process's
      generators.

    Attributes:
        iterables: the loaders, nested as they were given.
        mode: how they are read.
        limits: most batches of each loader: a number (an int is a count, a float a fraction), or one for each.
    """

    def __init__(
        self,
        iterables: Any,
        mode: str = "min_size",
        *,
        weights: Sequence[float] | None = None,
        limits: float | Sequence[int | float | None] | None = None,
        seed: int = 0,
    ) -> None:
        """Combine ``iterables``: a list or dict of loaders, nested as you like.

        Args:
            iterables: loaders; any iterables of batches.
            mode: see above.
            weights: for ``"weighted"``, how often each loader's turn comes; default: as often as it has batches.
            limits: see above.
            seed: for ``"weighted"``, the seed of that choice.

        Raises:
            ConfigError: for an unknown mode, or weights or limits that do not fit.
        """
        if mode not in MODES:
            raise ConfigError(
                f"CombinedLoader(mode={mode!r}): expected one of "
                f"{', '.join(map(repr, MODES))}.{did_you_mean(mode, MODES)}",
                code="LT460",
            )
        self.iterables, self.mode, self.seed = iterables, mode, seed
        self.weights = None if weights is None else _as_weights(weights)
        self.limits = limits
        self.epoch = 0
        _check_counts(self)

    @property
    def flattened(self) -> list[Any]:
        """The loaders in a flat list."""
        found: list[Any] = []
        map_tree(found.append, self.iterables)
        return found

    @flattened.setter
    def flattened(self, loaders: Sequence[Any]) -> None:
        if len(loaders) != len(self.flattened):
            raise ConfigError(
                f"CombinedLoader.flattened: expected {len(self.flattened)} loaders, got {len(loaders)}.", code="LT460"
            )
        self.iterables = self.nested(list(loaders))

    @property
    def sampler(self) -> Any:
        """The loaders' samplers, nested as they are."""
        return map_tree(lambda loader: getattr(loader, "sampler", None), self.iterables)

    @property
    def batch_sampler(self) -> Any:
        """The loaders' batch samplers, nested as they are."""
        return map_tree(lambda loader: getattr(loader, "batch_sampler", None), self.iterables)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next, to ``"weighted"`` and to the loaders that want to know."""
        self.epoch = epoch
        for loader in self.flattened:
            set_epoch(loader, epoch)

    def reset(self) -> None:
        """Do nothing: each iteration starts anew and ends its own workers."""

    def __len__(self) -> int:
        """Return the number of turns in an epoch.

        Raises:
            TypeError: where a loader that decides it has no length.
        """
        if (length := self.length(self.epoch)) is None:
            raise TypeError("CombinedLoader has no length, because a loader in it has none")
        return length

    def length(self, epoch: int) -> int | None:
        """Return the number of turns in an epoch; None where unknown."""
        lengths = self.lengths()
        known = [length for length in lengths if length is not None]
        if self.mode == "min_size":
            return min(known, default=None)
        if len(known) < len(lengths):
            return None
        if self.mode == "weighted":
            return _drawn_length(known, self.draws(epoch))
        return sum(known) if self.mode == "sequential" else max(known)

    def lengths(self) -> list[int | None]:
        """Return the batches of each loader, limits applied; None where unknown."""
        lengths = [one.num_batches if isinstance(one, Feed) else length_of(one) for one in self.flattened]
        return [_limited(length, limit) for length, limit in zip(lengths, self.limits_of(), strict=True)]

    def limits_of(self) -> list[int | float | None]:
        """Return the limit of each loader."""
        return list(self.limits) if isinstance(self.limits, Sequence) else [self.limits] * len(self.flattened)

    def __iter__(self) -> Iterator[Turn]:
        """Yield ``(batch, batch_idx, dataloader_idx)``; in ``"sequential"`` each loader's batches count from 0."""
        parts = [*map(Part, self.flattened, self.lengths(), self.limits_of())]
        last: int | None = None
        number = 0
        for batches, loader in take_turns(self.mode, parts, draws=self.draws(self.epoch)):
            number = 0 if self.mode == "sequential" and loader != last else number
            yield self.nested(batches) if loader is None else batches[0], number, loader or 0
            last, number = loader, number + 1

    def nested(self, batches: list[Any]) -> Any:
        """Return a batch of each loader, nested as the loaders are."""
        rest = iter(batches)
        return map_tree(lambda _: next(rest), self.iterables)

    def draws(self, epoch: int) -> Iterator[int]:
        """Yield the loader of each turn in ``"weighted"``: a function of seed and epoch."""
        weights = self.weights or [float(length or 1) for length in self.lengths()]
        generator = torch.Generator().manual_seed(seed_for(self.seed, "mixture", epoch))
        table = torch.tensor(weights, dtype=torch.float64, device="cpu")
        while True:
            yield from torch.multinomial(table, 1024, replacement=True, generator=generator).tolist()


class Part:
    """One loader inside a combined one: its present iterator, which may be made anew.

    Attributes:
        rounds: how often an iterator was made.
        ended: whether one was read to its end.
    """

    def __init__(self, loader: Iterable[Any], length: int | None, limit: float | None) -> None:
        """Read ``loader``: at most ``length`` batches where a ``limit`` was set."""
        self.loader = loader
        self.limit = None if limit is None or limit == math.inf else int(limit if length is None else length)
        self.iterator: Iterator[Any] = iter(())
        self.rounds = 0
        self.ended = False

    def start(self) -> None:
        """Make the loader's iterator, anew."""
        self.rounds += 1
        batches = (turn[0] for turn in self.loader) if isinstance(self.loader, CombinedLoader) else self.loader
        self.iterator = islice(batches, self.limit)

    def next(self) -> Any:
        """Return the next batch, or :data:`END`."""
        batch = next(self.iterator, END)
        self.ended = self.ended or batch is END
        return batch


END = object()
"""Stands where a loader has no further batch."""


def take_turns(mode: str, parts: Sequence[Part], *, draws: Iterator[int]) -> Iterator[tuple[list[Any], int | None]]:
    """Return an iterator over the turns: a batch of each part and None, or one batch and its part's number.

    Readers that have been started already go on where they are. All others are started right away, except in
    ``"sequential"``.

    Args:
        mode: see :class:`CombinedLoader`.
        parts: the loaders.
        draws: whose turn it is in ``"weighted"``.
    """
    if mode == "sequential":
        return _in_sequence(parts)
    for part in parts:
        if not part.rounds:
            part.start()
    return _by_draw(parts, draws) if mode == "weighted" else _side_by_side(mode, parts)


def _side_by_side(mode: str, parts: Sequence[Part]) -> Iterator[tuple[list[Any], None]]:
    while True:
        batches: list[Any] = []
        for part in parts:
            batch = END if part.ended and mode == "max_size" else next(part.iterator, END)
            if batch is END:
                part.ended = True
                if mode == "min_size" or all(each.ended for each in parts):
                    return
                batch = _again(part) if mode == "max_size_cycle" else None
            batches.append(batch)
        yield batches, None


def _in_sequence(parts: Sequence[Part]) -> Iterator[tuple[list[Any], int]]:
    for number, part in enumerate(parts):
        if not part.rounds:
            part.start()
        while (batch := part.next()) is not END:
            yield [batch], number


def _by_draw(parts: Sequence[Part], draws: Iterator[int]) -> Iterator[tuple[list[Any], int]]:
    for number in draws:
        batch = parts[number].next()
        if batch is END:
            if all(part.ended for part in parts):
                return
            batch = _again(parts[number])
        yield [batch], number


def _again(part: Part) -> Any:
    part.start()
    batch = part.next()
    if batch is END:
        raise DataError(
            f"A loader of the CombinedLoader ({type(part.loader).__name__}) gives no batch when it is read again. Is "
            "it empty, or a generator? Pass a list or a DataLoader.",
            code="LT461",
        )
    return batch


def _drawn_length(lengths: list[int], draws: Iterator[int]) -> int:
    left, ended = list(lengths), [False] * len(lengths)
    for turn, number in enumerate(draws):
        if not left[number]:
            ended[number] = True
            if all(ended) or not lengths[number]:
                return turn
            left[number] = lengths[number]
        left[number] -= 1
    return 0


def _limited(length: int | None, limit: float | None) -> int | None:
    """Return how many of ``length`` batches a limit leaves; None where unknown."""
    if limit is None or limit == math.inf:
        return length
    if isinstance(limit, float):
        if length is None:
            raise ConfigError(
                f"limits={limit}: a fraction needs a loader with a length, and this one has none. Take a count.",
                code="LT460",
            )
        return int(length * limit)
    return limit if length is None else min(length, limit)


def map_tree(function: Callable[[Any], Any], tree: Any, *, top: bool = True) -> Any:
    """Return nested lists, tuples and dicts of loaders with ``function`` applied to each loader.

    At the ``top`` a list holds loaders; further down it may be a loader itself, if it holds batches.
    """
    if isinstance(tree, Mapping):
        return {name: map_tree(function, value, top=False) for name, value in tree.items()}
    if isinstance(tree, (list, tuple)) and (top or holds_loaders(tree)):
        parts = [map_tree(function, value, top=False) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def _check_counts(loader: CombinedLoader) -> None:
    count = len(loader.flattened)
    for name in ("weights", "limits"):
        given = getattr(loader, name)
        if isinstance(given, Sequence) and len(given) != count:
            raise ConfigError(
                f"CombinedLoader({name}=...): expected {count} numbers, one for each loader, got {len(given)}.",
                code="LT460",
            )
    if loader.weights is not None and loader.mode != "weighted":
        raise ConfigError(
            f"CombinedLoader(weights=...) goes with mode='weighted', got mode={loader.mode!r}.", code="LT460"
        )
    for limit in loader.limits_of():
        _check_limit(limit)
    for one in loader.flattened:
        if isinstance(one, (str, bytes, Tensor)) or not (hasattr(one, "__iter__") or hasattr(one, "__getitem__")):
            raise ConfigError(
                f"CombinedLoader: expected DataLoaders or other iterables of batches, got {one!r:.60} "
                f"({type(one).__name__}).",
                code="LT460",
            )
    if not count:
        raise ConfigError("CombinedLoader of no loaders: expected at least one.", code="LT460")


def _as_weights(weights: Any) -> list[float]:
    try:
        found = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        found = []
    if not found or not all(0 < weight < math.inf for weight in found):
        raise ConfigError(
            f"CombinedLoader(weights={weights!r}): expected numbers above 0, one for each loader.", code="LT460"
        )
    return found


def _check_limit(limit: Any) -> None:
    """Raise for a limit that is neither a count nor a fraction."""
    if limit is None or (isinstance(limit, Integral) and not isinstance(limit, bool) and int(limit) >= 0):
        return
    if isinstance(limit, float) and (0.0 <= limit <= 1.0 or limit == math.inf):
        return
    raise ConfigError(
        f"CombinedLoader(limits=...): expected for each loader a count of batches, a fraction from 0.0 to 1.0 or None, "
        f"got {limit!r}.",
        code="LT460",
    )
