"""A map-style DataLoader read by several ranks together."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from lt_core.errors import DataError
from lt_core.strategy import Shard
from lt_data.reader import Reader
from lt_data.readers.dataloader import advice, index_sampler
from lt_data.readers.rows import Rows
from lt_data.resume.generators import find_owned, host_state, owned_states, set_host_state, set_owned_states, unplain
from lt_data.resume.indices import Watched, as_positions, checked, read_notes, samplers_of
from lt_data.resume.twin import Twin, read_worker_states
from lt_data.shards import (
    Order,
    Share,
    evaluation_shares,
    num_evaluation_batches,
    num_steps,
    permutation,
    seed_for,
    training_shares,
)


class ShardedReader(Reader):
    """This rank's part of a DataLoader over map-style data; nothing is drawn from the process's generators.

    In training the order of an epoch is a function of seed and epoch alone, shuffled as the user's sampler shuffles,
    and the place in it is one number: the items that all ranks have read. So an epoch continues on any number of ranks.
    An epoch that one process began, in the order that its generators gave, is continued in that order.

    The state holds that number, the order (by seed, or by the generators it was drawn from), and this rank's workers.
    """

    kind = "sharded"

    def __init__(
        self,
        loader: DataLoader[Any],
        shard: Shard,
        seed: int,
        *,
        find: Callable[[], Rows | None],
        exact: bool = True,
        stand_ins: bool = False,
    ) -> None:
        """Read ``loader`` as rank ``shard``.

        Args:
            loader: the user's.
            shard: which part.
            seed: the run's seed.
            find: returns how whole batches are taken, where the dataset is a table; asked at each epoch.
            exact: True in training; in evaluation each batch is one that a single process would read.
            stand_ins: in evaluation, whether all ranks yield equally many batches.
        """
        self.loader, self.shard, self.seed, self.exact, self.stand_ins = loader, shard, seed, exact, stand_ins
        self.indices = _Shares()
        self.twin = Twin(loader, self.indices, travel=exact)
        self._find, self._rows = find, find()
        self.ahead = self._rows is not None or loader.num_workers > 0
        self.parcels = self.twin.travels and self._rows is None
        self.unwrap = self._unwrap
        self._order = Order(range(0), 1)
        self._drawn: dict[str, Any] | None = None
        self._start = self._start_batches = 0
        self._rest: dict[str, Any] | None = None
        self._born: list[int] = [0, 0]
        self._open = False
        self._delivered: Share | None = None
        self._lone = loader.batch_sampler is None  # items are single indices, not lists of them

    def accepts(self, kind: str, shard: Shard) -> bool:
        return kind == self.kind or (kind == "loader" and shard == Shard())

    @property
    def positions(self) -> list[int] | None:
        return None if self._delivered is None else as_positions(self._delivered.items)

    def batch_size(self, batches: int) -> int | None:
        return None if self._delivered is None or self._lone else len(self._delivered.items)

    # ---- lengths -----------------------------------------------------------------------------------------------------

    @property
    def length(self) -> int | None:
        frame = self._frame()
        if self.exact:
            return num_steps(len(frame.items), frame.size, self.shard.count, frame.drop_last)
        return num_evaluation_batches(frame, self.shard, self.stand_ins)

    @property
    def uneven(self) -> bool:  # type: ignore[override]
        if not self.exact:
            return self.stand_ins
        frame = self._frame()
        rest = len(frame.items) % (frame.size * self.shard.count)
        return frame.batched or bool(rest % self.shard.count and not frame.drop_last)

    def samples(self, batches: int) -> int | None:
        frame = self._order
        return None if frame.batched or not self.exact else self._position(batches)

    def samples_done(self, state: dict[str, Any], batches: int) -> int | None:
        if self._frame().batched or not self.exact:
            return None
        return int(state["position"]) if "position" in state else self._position_drawn(state, batches)

    def batches_done(self, state: dict[str, Any], batches: int) -> int:
        position = state["position"] if "position" in state else self._position_drawn(state, batches)
        frame = self._frame()
        left = num_steps(len(frame.items) - position, frame.size, self.shard.count, frame.drop_last)
        return max((self.length or 0) - left, 0)

    # ---- an epoch ----------------------------------------------------------------------------------------------------

    def begin(self, epoch: int) -> Iterator[Any]:
        self._settle()
        self._drawn, self._start, self._start_batches, self._open = None, 0, 0, True
        self._order = self._seeded_order(epoch)
        rest, self._rest = self._rest, None
        if rest is None:
            return self._read(epoch, born=[epoch, 0])
        return self._read(epoch, born=rest["born"], states=read_worker_states(rest["workers"]))

    def resume(self, epoch: int, state: dict[str, Any], batches: int) -> Iterator[Any]:
        self._settle()
        self._check_unchanged(state)
        self._open = True
        self._drawn = state if "position" not in state else state["drawn"]
        self._order = self._seeded_order(epoch) if self._drawn is None else drawn_order(self.loader, self._drawn)
        self._start_batches = self.batches_done(state, batches)
        self._start = state["position"] if "position" in state else self._position_drawn(state, batches)
        mine = state.get("shard") == list(self.shard) and state["num_workers"] == self.loader.num_workers
        if not mine:
            return self._read(epoch, born=[epoch, self._start])
        set_owned_states(self._owned(), state["owned"])
        states = read_worker_states(state["workers"])
        return self._read(epoch, born=state["born"], states=states, first=state["next_worker"])

    def state(self, batches: int) -> dict[str, Any]:
        return {
            "position": self._position(batches),
            "drawn": self._drawn,
            "shard": list(self.shard),
            "born": self._born,
            "workers": self.twin.worker_states(),
            "next_worker": self.twin.next_worker,
            "num_workers": self.loader.num_workers,
            "owned": owned_states(self._owned()),
            "total": len(self._frame().items),
        }

    def state_before(self, batches: int) -> dict[str, Any]:
        return self.state(batches - 1)

    def rest_state(self) -> dict[str, Any]:
        if not (self.exact and self.twin.persistent):
            return {"owned": owned_states(self._owned())} if self.exact else {}
        self._settle()
        return {"owned": owned_states(self._owned()), "workers": self.twin.worker_states(), "born": self._born}

    def rest(self, state: dict[str, Any]) -> None:
        set_owned_states(self._owned(), state.get("owned", ()))
        if self.twin.persistent and state.get("workers"):
            self._rest = state

    def leave(self, finished: bool) -> None:
        self._open = False
        self.twin.leave(used_up=False)

    def close(self) -> None:
        self.twin.close()

    def advice(self) -> str:
        return advice(self.loader)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _read(
        self, epoch: int, *, born: list[int], states: dict[int, Any] | None = None, first: int = 0
    ) -> Iterator[Any]:
        """Return the iterator over the shares from the present start on.

        Args:
            epoch: the epoch.
            born: epoch and place at which the workers were started, from which their seeds follow.
            states: workers' states to be put back.
            first: the worker that gets the first batch.
        """
        shares = (
            training_shares(self._order, self.shard, self._start)
            if self.exact
            else evaluation_shares(self._order, self.shard, self.stand_ins)
        )
        self.indices.follow(shares, lone=self._lone)
        if self._rows is not None:
            self._rows = self._find() or self._rows
            return map(self._rows.take, self.indices.tensors(self._rows))
        if not self.twin.alive:
            self._born = born
        base = torch.Generator()
        base.manual_seed(seed_for(self.seed, "workers", self.shard.index, *born))
        return self.twin.open(states=states, first=first, base=base)

    def _unwrap(self, item: Any) -> Any:
        self._delivered = share = self.indices.waiting.popleft()
        self.weight = share.weight
        return self.twin.unwrap(item) if self.parcels else item

    def _position(self, batches: int) -> int:
        done = (batches - self._start_batches) * self._order.size * self.shard.count
        return min(self._start + done, len(self._order.items))

    def _position_drawn(self, state: dict[str, Any], batches: int) -> int:
        """Return the place that one process's state means, whose batches may have had another size."""
        return min(batches * (state["shape"][1] or 1), len(self._frame().items))

    def _settle(self) -> None:
        if self.twin.persistent and self.twin.alive and not self._open:
            self.indices.stopped = True
            self.twin.drain()

    def _owned(self) -> list[Any]:
        return [] if self.loader.num_workers else find_owned([self.loader.dataset, self.loader.collate_fn])

    # ---- the order of an epoch ---------------------------------------------------------------------------------------

    def _frame(self) -> Order:
        """Return an order of the right length; its items are not those that will be read."""
        loader = self.loader
        batches = index_sampler(loader)
        try:
            if loader.batch_sampler is None:
                return Order(range(len(loader.sampler)), 1)  # type: ignore[arg-type]
            if type(batches) is BatchSampler:
                return Order(range(len(batches.sampler)), batches.batch_size, batches.drop_last)  # type: ignore[arg-type]
            return Order([()] * len(batches), 1, batched=True)
        except TypeError:
            lacking = batches.sampler if type(batches) is BatchSampler else batches
            raise DataError(
                f"{type(lacking).__name__} has no length, so that its samples cannot be shared among "
                f"{self.shard.count} ranks. Give it a __len__, or shard it yourself and pass "
                "Trainer(use_distributed_sampler=False).",
                code="LT450",
            ) from None

    def _seeded_order(self, epoch: int) -> Order:
        frame = self._frame()
        sampler = index_sampler(self.loader) if frame.batched else self.loader.sampler
        if not frame.batched and self.loader.batch_sampler is not None:
            sampler = self.loader.batch_sampler.sampler  # type: ignore[attr-defined]
        if type(sampler) is SequentialSampler:
            return frame
        seed = seed_for(self.seed, "order", epoch)
        if type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(sampler.data_source):
            return frame._replace(items=permutation(len(sampler), seed))
        return frame._replace(items=_listed(_isolated(self.loader, sampler, len(frame.items), seed), frame.batched))

    def _check_unchanged(self, state: dict[str, Any]) -> None:
        saved = state["total"] if "position" in state else None
        mine = len(self._frame().items)
        if saved is not None and saved != mine:
            raise DataError(
                f"The checkpoint was written in the middle of an epoch of {saved} samples; now there are {mine}. "
                "Resume with the same data, or from a checkpoint at an epoch's end.",
                code="LT444",
            )


class _Shares:
    """The index sampler of a rank: hands on the items of its shares, and keeps these until delivery."""

    def __init__(self) -> None:
        self.waiting: deque[Share] = deque()
        self.stopped = False
        self._shares: Iterator[Share] = iter(())
        self._lone = False

    def follow(self, shares: Iterator[Share], *, lone: bool) -> None:
        """Hand on ``shares`` from now on; ``lone`` for single indices in place of lists."""
        self.waiting.clear()
        self.stopped, self._shares, self._lone = False, shares, lone

    def __iter__(self) -> Iterator[Any]:
        while not self.stopped and (share := next(self._shares, None)) is not None:
            self.waiting.append(share)
            items = share.items.tolist() if isinstance(share.items, Tensor) else list(share.items)
            yield items[0] if self._lone else items

    def tensors(self, rows: Rows) -> Iterator[Tensor]:
        """Yield the items of each share as a tensor of int64, shape ``(n,)``."""
        for share in self._shares:
            self.waiting.append(share)
            items = share.items
            if isinstance(items, range):
                items = torch.arange(items.start, items.stop, device="cpu")
            yield rows.indices(items)


def _listed(items: list[Any], batched: bool) -> Any:
    return items if batched else torch.tensor(items, dtype=torch.int64, device="cpu")


def _isolated(loader: DataLoader[Any], sampler: Any, length: int, seed: int) -> list[Any]:
    """Return the items of ``sampler`` with all generators seeded by ``seed``; the generators are restored.

    So a user's own sampler gives the same order on every rank, and again after a resume.
    """
    owned = find_owned([loader.generator, *samplers_of(loader)])
    host, states = host_state(), owned_states(owned)
    try:
        _seed_all(owned, seed)
        return [checked(index, sampler) for index in islice(sampler, length)]
    finally:
        set_owned_states(owned, states)
        set_host_state(host)


def _seed_all(owned: list[Any], seed: int) -> None:
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    for number, generator in enumerate(owned):
        own = seed_for(seed, number)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(own)
        elif hasattr(generator, "bit_generator"):
            bits = generator.bit_generator
            bits.state = type(bits)(own).state
        else:
            generator.seed(own % 2**32)


def drawn_order(loader: DataLoader[Any], state: dict[str, Any]) -> Order:
    """Return the order that one process drew for its epoch, from the state that it wrote; draws nothing itself."""
    owned = find_owned([loader.generator, *samplers_of(loader)])
    host, states = host_state(), owned_states(owned)
    try:
        set_host_state(unplain(state["before"]))
        set_owned_states(owned, state["owned_before"])
        watched = Watched(index_sampler(loader))
        watched.replay(0, state["drawn"], read_notes(state["notes"]))
        indices = iter(watched)
        if state["starts_workers"]:
            torch.empty((), dtype=torch.int64, device="cpu").random_(generator=loader.generator)
            indices = iter(watched) if state["num_workers"] else indices
        batches: list[Any] = list(indices)
    finally:
        set_owned_states(owned, states)
        set_host_state(host)
    if loader.batch_sampler is None:
        return Order(torch.tensor(batches, dtype=torch.int64), 1)
    if type(loader.batch_sampler) is not BatchSampler:
        return Order(batches, 1, batched=True)
    flat = torch.tensor([index for batch in batches for index in batch], dtype=torch.int64)
    return Order(flat, loader.batch_sampler.batch_size, loader.batch_sampler.drop_last)
