"""Several loaders read as one by a feed: each has a feed of its own, and is sharded and resumed as any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from typing import Any

from lt_core.strategy import Shard
from lt_data.combined import CombinedLoader, Part, take_turns
from lt_data.feed import LoaderFeed
from lt_data.reader import Reader, State

_ROUND = 1_000_003
"""Distance between the epochs of two rounds of a loader, so that it is shuffled anew when it starts anew."""


class CombinedReader(Reader):
    """A :class:`CombinedLoader` whose loaders are read by ``feeds``.

    Its state: the feeds' states, how often each was started, and which of them ended.
    """

    kind = "combined"

    def __init__(self, loader: CombinedLoader, feeds: list[LoaderFeed], shard: Shard) -> None:
        """Read ``loader`` by ``feeds``, one for each of its loaders."""
        self.loader, self.feeds, self.shard = loader, feeds, shard
        self.uneven = any(feed.uneven for feed in feeds)
        self.unwrap = self._unwrap
        self._nested = _nesting(loader, feeds)
        self._parts: list[_FedPart] = []

    @property
    def length(self) -> int | None:
        return self._as_fed().length(self.loader.epoch)

    @property
    def _turn(self) -> int | None:
        """Number of the loader whose turn it is; None where all have theirs at once."""
        return self.dataloader_idx if self.loader.mode in ("sequential", "weighted") else None

    @property
    def positions(self) -> list[int] | None:
        return None if self._turn is None else self.feeds[self._turn].indices

    def batch_size(self, batches: int) -> int | None:
        sizes = {feed.batch_size for n, feed in enumerate(self.feeds) if self._turn in (None, n)}
        return sizes.pop() if len(sizes) == 1 else None

    def accepts(self, kind: str, shard: Shard) -> bool:
        return kind == self.kind

    def set_epoch(self, epoch: int) -> None:
        for feed in self.feeds:
            feed.reader.set_epoch(epoch)

    def begin(self, epoch: int) -> Iterator[Any]:
        return self._turns(epoch, [{"rounds": 0, "ended": False}] * len(self.feeds), done=0)

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        return self._turns(epoch, state["readers"], done=batches)

    def state(self, batches: int) -> State:
        return {"readers": [part.state_dict() for part in self._parts]}

    def state_before(self, batches: int) -> State:
        ends = self.loader.mode == "max_size"
        took = [self._turn in (None, n) and not (ends and part.ended) for n, part in enumerate(self._parts)]
        return {"readers": [part.state_dict(before=before) for part, before in zip(self._parts, took, strict=True)]}

    def rest_state(self) -> State:
        return {"feeds": [feed.state_dict() for feed in self.feeds]}

    def rest(self, state: State) -> None:
        kept = state["feeds"] if "feeds" in state else [part["feed"] for part in state["readers"]]
        for feed, one in zip(self.feeds, kept, strict=True):
            feed.load_state_dict(one)

    def leave(self, finished: bool) -> None:
        for part in self._parts:
            part.iterator = iter(())
        self._parts = []

    def close(self) -> None:
        for feed in self.feeds:
            feed.close()

    def content(self, item: Any) -> Any:
        batches, number = item
        return self.loader.nested(batches) if number is None else batches[0]

    def advice(self) -> str:
        return max(self.feeds, key=lambda feed: feed.num_batches or 0).advice()

    def _as_fed(self) -> CombinedLoader:
        """Return the loader over the feeds, whose lengths are this rank's."""
        fed = copy(self.loader)
        fed.iterables = self.feeds
        return fed

    def _turns(self, epoch: int, states: list[State], done: int) -> Iterator[Any]:
        fed = self._as_fed()
        pairs = zip(self.feeds, fed.lengths(), fed.limits_of(), states, strict=True)
        self._parts = [_FedPart(feed, length, limit, epoch, state) for feed, length, limit, state in pairs]
        return take_turns(fed.mode, self._parts, draws=islice(fed.draws(epoch), done, None))

    def _unwrap(self, turn: tuple[list[Any], int | None]) -> Any:
        batches, number = turn
        if number is not None:
            self.dataloader_idx, self.weight = number, self.feeds[number].weight
            return batches[0]
        if self.uneven:  # one loss over several batches has one weight
            self.weight = sum(feed.weight for feed in self.feeds) / len(self.feeds)
        return self._nested(batches)


def _nesting(loader: CombinedLoader, feeds: list[Any]) -> Callable[[list[Any]], Any]:
    """Return what :meth:`CombinedLoader.nested` does, without a walk where the loaders lie in one list or dict."""
    shape = loader.nested(feeds)
    if shape == feeds:
        return list
    if type(shape) is dict and [*shape.values()] == feeds:
        return lambda batches: dict(zip(shape, batches, strict=True))
    return loader.nested


class _FedPart(Part):
    """Reads a loader by its feed; in the middle of an epoch it goes on where ``state`` says."""

    def __init__(self, feed: LoaderFeed, length: int | None, limit: float | None, epoch: int, state: State) -> None:
        super().__init__(feed, length, limit)
        self.feed, self.epoch = feed, epoch
        self.rounds, self.ended = int(state["rounds"]), bool(state["ended"])
        if "feed" in state:
            feed.load_state_dict(state["feed"])
            if state["feed"]["inside"] is not None:
                self._read(feed.batches_done)

    def start(self) -> None:
        self.rounds += 1
        self._read(0)

    def state_dict(self, *, before: bool = False) -> State:
        """Return the place of this loader, after its last batch or before it."""
        place = self.feed.state_before() if before else self.feed.state_dict()
        return {"rounds": self.rounds, "ended": self.ended, "feed": place}

    def _read(self, done: int) -> None:
        self.feed.begin_round(self.epoch + (self.rounds - 1) * _ROUND)
        self.iterator = islice(self.feed, None if self.limit is None else max(self.limit - done, 0))
