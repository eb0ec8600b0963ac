"""Any other iterable of batches: a list, a generator, a loader of somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from lt_core.data import length_of
from lt_core.errors import warn
from lt_core.strategy import Shard
from lt_data.fingerprint import fingerprint
from lt_data.reader import Reader, State
from lt_data.readers.dataloader import warn_of_rereading
from lt_data.resume.generators import (
    find_owned,
    host_state,
    owned_states,
    plain,
    set_host_state,
    set_owned_states,
    unplain,
)
from lt_data.resume.indices import Watched, plain_notes, read_notes
from lt_data.resume.workers import keeps_state


class IterableReader(Reader):
    """Reads an iterable as it is. A resume continues by the loader's own ``state_dict`` where it has one (torchdata's
    protocol); batches of a list are skipped; others are read again and dropped.

    An iterator, which is its own loader, is asked for itself in every epoch, as a loop over it does. It may begin anew
    then or when it has ended, or go on where it was left. Who has ended begins anew, and is spent if nothing comes; who
    was left early is taken to go on, and a resume reads its earlier epochs again.

    The state holds the batches read since it began anew, and how many of them in earlier epochs, the generators before
    the iterator was made, the loader's own then and now, notes on its draws, and its own state.
    """

    kind = "iterable"

    def __init__(self, loader: Any, *, exact: bool = True) -> None:
        """Read ``loader``; ``exact`` where a resume in the middle of an epoch must be possible (training)."""
        self.loader = loader
        self.exact = exact
        self._listed = isinstance(loader, (list, tuple))
        self._stateful = keeps_state(loader)
        self._lasts = isinstance(loader, Iterator)  # longer than an epoch, perhaps
        self._watched = Watched(loader, trust_quiet=True)
        self._noted = exact and not (self._listed or self._stateful)
        self._before: State = {}
        self._earlier = 0

    @property
    def length(self) -> int | None:
        return length_of(self.loader)

    def accepts(self, kind: str, shard: Shard) -> bool:
        return kind in (IterableReader.kind, SharedIterableReader.kind)

    def batches_done(self, state: State, batches: int) -> int:
        if "read" not in state:
            return batches
        total, read = length_of(self.loader), int(state["read"]) - int(state.get("earlier", 0))
        if total is None:
            return -(-read // self.shard.count)
        return -(-total // self.shard.count) - -(-max(total - read, 0) // self.shard.count)

    def begin(self, epoch: int) -> Iterator[Any]:
        if not self._noted:
            return islice(self.loader, None)  # a loop over iter() would call __iter__ twice
        if not self._goes_on:
            return self._begin_anew()
        self._earlier = self._watched.drawn
        return self._go_on_or_begin_anew(self._watched.go_on())

    @property
    def _goes_on(self) -> bool:
        return self._noted and self._lasts and bool(self._before) and not self._watched.ended

    def _begin_anew(self) -> Iterator[Any]:
        self._earlier = 0
        self._before = {"before": plain(host_state()), "owned_before": owned_states(self._owned())}
        self._watched.begin(born=False)
        return iter(self._watched)

    def _go_on_or_begin_anew(self, rest: Iterator[Any]) -> Iterator[Any]:
        """Yield the rest; after an epoch that took every item without seeing the end, the items after it."""
        first = list(islice(rest, 1))
        yield from chain(first, rest) if first else self._begin_anew()

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        if self._listed:
            return islice(self.loader, state["read"], None)
        if not self._stateful or state.get("place") is None:
            return self._read_again(state)
        now = host_state()
        self.loader.load_state_dict(state["place"])
        iterator = islice(self.loader, None)
        set_host_state(now)
        return iterator

    def state(self, batches: int) -> State:
        if self._stateful:
            return {"place": self.loader.state_dict()}
        if not self._noted:
            return {"read": self._items_read(batches)}
        watched = self._watched
        return {
            **self._before,
            "read": watched.drawn,
            "earlier": self._earlier,
            "turns": plain_notes(watched.turns),
            "notes": plain_notes(watched.notes),
            "owned": owned_states(self._owned()),
        }

    def state_before(self, batches: int) -> State | None:
        if self._stateful:
            return None
        before = self.state(batches - 1)
        return {**before, "read": before["read"] - 1} if self._noted else before

    def rest_state(self) -> State:
        if self._goes_on:
            return self.state(0)
        owned = owned_states(self._owned()) if self._noted and self._before else []
        return {"owned": owned} if owned else {}

    def rest(self, state: State) -> None:
        if self._noted and self._lasts and "read" in state:
            self._read_again(state)
        elif self._noted and "owned" in state:
            set_owned_states(self._owned(), state["owned"])

    def _items_read(self, batches: int) -> int:
        return batches

    def _owned(self) -> list[Any]:
        return find_owned([self.loader])

    def _read_again(self, state: State) -> Iterator[Any]:
        now, watched = host_state(), self._watched
        self._before = {name: state[name] for name in ("before", "owned_before")}
        set_host_state(unplain(state["before"]))
        set_owned_states(self._owned(), state["owned_before"])
        warn_of_rereading(state["read"], type(self.loader).__name__)
        self._earlier = state.get("earlier", 0)
        turns = read_notes(state.get("turns", {}))
        watched.replay(state["read"], state["read"], read_notes(state["notes"]), turns=turns)
        iter(watched)
        watched.skip()
        set_owned_states(self._owned(), state["owned"])
        set_host_state(now)
        return watched.rest()


class SharedIterableReader(IterableReader):
    """Reads an iterable of batches on several ranks: all read it, and each keeps every ``count``-th batch.

    In training all ranks take the same number of steps: in a last round of ``m`` batches, the ranks that have one weigh
    it ``count / m``, and the others take part with a stand-in of weight 0.0.
    """

    kind = "shared iterable"

    def __init__(self, loader: Any, shard: Shard, *, exact: bool, stand_ins: bool, same: Callable[[str], None]) -> None:
        """Read ``loader`` as rank ``shard``.

        Args:
            loader: the user's.
            shard: which part.
            exact: True in training.
            stand_ins: in evaluation, whether ranks without a batch yield a stand-in.
            same: called with a mark of the first batch, which must be the same on all ranks.
        """
        super().__init__(loader, exact=exact)
        self.shard, self.uneven = shard, exact or stand_ins
        self.unwrap = self._unwrap
        self._same: Callable[[str], None] | None = same if exact else None
        self._start = self._start_batches = 0
        if not self._listed:
            warn_of_sharing(type(loader).__name__)

    @property
    def length(self) -> int | None:
        total = super().length
        if total is None:
            return None
        return -(-total // self.shard.count) if self.uneven else len(range(self.shard.index, total, self.shard.count))

    def begin(self, epoch: int) -> Iterator[Any]:
        self._start = self._start_batches = 0
        return self._rounds(super().begin(epoch))

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        self._start, self._start_batches = state.get("read", 0), self.batches_done(state, batches)
        return self._rounds(super().resume(epoch, state, batches))

    def _items_read(self, batches: int) -> int:
        return self._start + (batches - self._start_batches) * self.shard.count

    def state_before(self, batches: int) -> State | None:
        return None  # several were read for it

    def _rounds(self, batches: Iterator[Any]) -> Iterator[tuple[Any, float, Any]]:
        index, count = self.shard
        while turn := list(islice(batches, count)):
            mine = index < len(turn)
            if mine or self.uneven:
                weight = count / len(turn) if self.exact else 1.0
                yield turn[index if mine else 0], weight if mine else 0.0, turn[0] if self._same is not None else None

    def _unwrap(self, item: tuple[Any, float, Any]) -> Any:
        batch, self.weight, first = item
        same, self._same = self._same, None
        if same is not None:
            same(fingerprint(first))
        return batch


def warn_of_sharing(name: str, pieces: int = 0, ranks: int = 1) -> None:
    """Warn that all ranks read all of a loader; ``pieces`` where it splits into a number that ranks cannot share."""
    why, remedy = "does not say how it splits over ranks", "give an IterableDataset a method shard(num_shards, index)"
    if pieces:
        why, remedy = f"has num_shards={pieces}, no multiple of {ranks} ranks", "make num_shards such a multiple"
    warn(
        f"{name} {why}: each rank reads all of it and keeps its part. To read less, {remedy}, use a DataLoader over a "
        "map-style dataset, or shard it by rank yourself and pass Trainer(use_distributed_sampler=False).",
        code="LT451",
    )
