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
from lt_data.fingerprint import fingerprint, require_same
from lt_data.reader import State
from lt_data.readers.dataloader import WorkerReader, index_sampler
from lt_data.readers.rows import Rows
from lt_data.resume.generators import (
    find_owned,
    owned_states,
    preserve_owned,
    set_host_state,
    set_owned_states,
    unplain,
)
from lt_data.resume.indices import Watched, as_positions, checked, read_notes, samplers_of
from lt_data.resume.loader_copy import LoaderCopy, read_worker_states
from lt_data.shards import (
    Order,
    Share,
    evaluation_shares,
    num_evaluation_batches,
    num_steps,
    seed_for,
    training_shares,
)


class ShardedReader(WorkerReader):
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
        gather: Callable[[Any], list[Any]] | None = None,
    ) -> None:
        """Read ``loader`` as rank ``shard``.

        Args:
            loader: the user's.
            shard: which part.
            seed: the run's seed.
            find: returns how whole batches are taken, where the dataset is a table; asked at each epoch.
            exact: True in training; in evaluation each batch is one that a single process would read.
            stand_ins: in evaluation, whether all ranks yield equally many batches.
            gather: returns every rank's value, to see whether a sampler of the user's gives all of them one order.
        """
        self.gather = gather
        self.loader, self.shard, self.seed, self.exact, self.stand_ins = loader, shard, seed, exact, stand_ins
        self.indices = _Shares(lone=loader.batch_sampler is None)
        self.copy = LoaderCopy(loader, self.indices, travel=exact)
        self._find, self._rows = find, find()
        self.ahead = self._rows is not None or loader.num_workers > 0
        self.parcels = self.copy.travels and self._rows is None
        self.unwrap = self._unwrap
        self._order = Order(range(0), 1)
        self._next: Order | None = None
        self._drawn: State | None = None
        self._start = self._start_batches = 0
        self.born = [0, 0]
        self._delivered: Share | None = None

    def accepts(self, kind: str, shard: Shard) -> bool:
        return kind == self.kind or (kind == "loader" and shard == Shard())

    @property
    def positions(self) -> list[int] | None:
        return None if self._delivered is None else as_positions(self._delivered.items)

    def batch_size(self, batches: int) -> int | None:
        return None if self._delivered is None or self.indices.lone else len(self._delivered.items)

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
        return None if self._order.batched or not self.exact else self._position(batches)

    def samples_done(self, state: State, batches: int) -> int | None:
        if self._frame().batched or not self.exact:
            return None
        return self._position_in(state, batches)

    def batches_done(self, state: State, batches: int) -> int:
        frame = self._frame()
        left = num_steps(
            len(frame.items) - self._position_in(state, batches), frame.size, self.shard.count, frame.drop_last
        )
        return max((self.length or 0) - left, 0)

    # ---- an epoch ----------------------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        if not self.exact:  # here, where all ranks come: one with fewer batches may not begin each of several loaders
            self._next = self._seeded_order(epoch, self.gather)

    def begin(self, epoch: int) -> Iterator[Any]:
        self._settle()
        self._drawn, self._start, self._start_batches, self._open = None, 0, 0, True
        self._order, self._next = self._next or self._seeded_order(epoch, self.gather if self.exact else None), None
        rest, self._rest = self._rest, None
        if rest is None:
            return self._read(born=[epoch, 0])
        return self._read(born=rest["born"], states=read_worker_states(rest["workers"]))

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        self._settle()
        self._check_unchanged(state)
        self._open = True
        self._drawn = state if "position" not in state else state["drawn"]
        self._order = self._seeded_order(epoch, self.gather) if self._drawn is None else self._drawn_order(self._drawn)
        self._start_batches = self.batches_done(state, batches)
        self._start = self._position_in(state, batches)
        mine = state.get("shard") == list(self.shard) and state["num_workers"] == self.loader.num_workers
        if not mine:
            return self._read(born=[epoch, self._start])
        set_owned_states(self._owned(), state["owned"])
        states = read_worker_states(state["workers"])
        return self._read(born=state["born"], states=states, first=state["next_worker"])

    def state(self, batches: int) -> State:
        return {
            "position": self._position(batches),
            "drawn": self._drawn,
            "shard": list(self.shard),
            "born": self.born,
            "workers": self.copy.worker_states(),
            "next_worker": self.copy.next_worker,
            "num_workers": self.loader.num_workers,
            "owned": owned_states(self._owned()),
            "total": len(self._frame().items),
        }

    def state_before(self, batches: int) -> State:
        return self.state(batches - 1)

    def leave(self, finished: bool) -> None:
        self._open = False
        self.copy.leave(used_up=False)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _read(self, *, born: list[int], states: dict[int, Any] | None = None, first: int = 0) -> Iterator[Any]:
        """Return the iterator over the shares from the present start on.

        Args:
            born: epoch and place at which the workers were started, from which their seeds follow.
            states: workers' states to be put back.
            first: the worker that gets the first batch.
        """
        shares = (
            training_shares(self._order, self.shard, self._start)
            if self.exact
            else evaluation_shares(self._order, self.shard, self.stand_ins)
        )
        self.indices.follow(shares)
        if self._rows is not None:
            self._rows = self._find() or self._rows
            return map(self._rows.take, self.indices.tensors(self._rows))
        if not self.copy.alive:
            self.born = born
        base = seed_for(self.seed, "workers", self.shard.index, *born)
        return self.copy.open(states=states, first=first, base=torch.Generator().manual_seed(base))

    def _unwrap(self, item: Any) -> Any:
        self._delivered = share = self.indices.waiting.popleft()
        self.weight = share.weight
        return self.copy.unwrap(item) if self.parcels else item

    def _position(self, batches: int) -> int:
        done = (batches - self._start_batches) * self._order.size * self.shard.count
        return min(self._start + done, len(self._order.items))

    def _position_in(self, state: State, batches: int) -> int:
        """Return the place that a state means, also one process's, whose batches may have had another size."""
        if "position" in state:
            return int(state["position"])
        return min(batches * (state["shape"][1] or 1), len(self._frame().items))

    def _stop(self) -> None:
        self.indices.follow(iter(()))

    def _owned(self) -> list[Any]:
        return [] if self.loader.num_workers else find_owned([self.loader.dataset, self.loader.collate_fn])

    # ---- the order of an epoch ---------------------------------------------------------------------------------------

    def _frame(self) -> Order:
        """Return an order of the right length; its items are not the ones that will be read."""
        batches = sampler = index_sampler(self.loader)
        size, drop_last, grouped = 1, False, type(batches) is BatchSampler and not self.indices.lone
        if grouped:
            sampler, size, drop_last = batches.sampler, batches.batch_size, batches.drop_last
        try:
            items = range(len(sampler))
        except TypeError:
            raise DataError(
                f"{type(sampler).__name__} has no length, so that its samples cannot be shared among "
                f"{self.shard.count} ranks. Give it a __len__, or shard it yourself and pass "
                "Trainer(use_distributed_sampler=False).",
                code="LT450",
            ) from None
        batched = not grouped and not self.indices.lone
        return Order([()] * len(items) if batched else items, size, drop_last, batched)

    def _seeded_order(self, epoch: int, gather: Callable[[Any], list[Any]] | None) -> Order:
        frame, sampler = self._frame(), index_sampler(self.loader)
        if not frame.batched and not self.indices.lone:
            sampler = sampler.sampler
        if type(sampler) is SequentialSampler:
            return frame
        seed = seed_for(self.seed, "order", epoch)
        if type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(sampler.data_source):
            return frame._replace(items=torch.randperm(len(sampler), generator=torch.Generator().manual_seed(seed)))
        order = self._ordered(_isolated(self.loader, sampler, len(frame.items), seed))
        require_same(gather, type(sampler).__name__)(fingerprint(order.items))
        return order

    def _drawn_order(self, state: State) -> Order:
        """Return the order that one process drew for its epoch, from the state that it wrote; draws nothing itself."""
        loader = self.loader
        with preserve_owned([loader.generator, *samplers_of(loader)], host=True) as owned:
            set_host_state(unplain(state["before"]))
            set_owned_states(owned, state["owned_before"])
            watched = Watched(index_sampler(loader))
            watched.replay(0, state["drawn"], read_notes(state["notes"]))
            indices = iter(watched)
            if state["starts_workers"]:
                torch.empty((), dtype=torch.int64, device="cpu").random_(generator=loader.generator)
                indices = iter(watched) if state["num_workers"] else indices
            batches = list(indices)
        flat = type(loader.batch_sampler) is BatchSampler
        return self._ordered([index for batch in batches for index in batch] if flat else batches)

    def _ordered(self, items: list[Any]) -> Order:
        frame = self._frame()
        return frame._replace(items=items if frame.batched else torch.tensor(items, dtype=torch.int64, device="cpu"))

    def _check_unchanged(self, state: State) -> None:
        mine = len(self._frame().items)
        if "position" in state and state["total"] != mine:
            raise DataError(
                f"The checkpoint was written in the middle of an epoch of {state['total']} samples; now there are "
                f"{mine}. Resume with the same data, or from a checkpoint at an epoch's end.",
                code="LT444",
            )


class _Shares:
    """The index sampler of a rank: hands on the items of its shares, and keeps these until delivery.

    Attributes:
        lone: whether items are single indices, not lists of them.
    """

    def __init__(self, lone: bool) -> None:
        self.lone = lone
        self.waiting: deque[Share] = deque()
        self._shares: Iterator[Share] = iter(())

    def follow(self, shares: Iterator[Share]) -> None:
        """Hand on ``shares`` from now on."""
        self.waiting.clear()
        self._shares = shares

    def _next(self) -> Iterator[Any]:
        while (share := next(self._shares, None)) is not None:
            self.waiting.append(share)
            yield share.items

    def __iter__(self) -> Iterator[Any]:
        for items in self._next():
            listed = items.tolist() if isinstance(items, Tensor) else list(items)
            yield listed[0] if self.lone else listed

    def tensors(self, rows: Rows) -> Iterator[Tensor]:
        """Yield the items of each share as a tensor of int64, shape ``(n,)``."""
        for items in self._next():
            whole = isinstance(items, range)
            yield rows.indices(torch.arange(items.start, items.stop, device="cpu") if whole else items)


def _isolated(loader: DataLoader[Any], sampler: Any, length: int, seed: int) -> list[Any]:
    """Return the items of ``sampler`` with all generators seeded by ``seed``; the generators are restored.

    So a user's own sampler gives the same order on every rank, and again after a resume.
    """
    with preserve_owned([loader.generator, *samplers_of(loader)], host=True) as owned:
        _seed_all(owned, seed)
        return [checked(index, sampler) for index in islice(sampler, length)]


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
            # numpy's bit generators cannot be seeded once they are made
            bits.state = type(bits)(own).state
        else:
            generator.seed(own % 2**32)
