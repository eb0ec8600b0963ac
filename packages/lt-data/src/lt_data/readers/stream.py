"""An iterable dataset read by several ranks: by its own shards, or each rank keeps its part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lt_core.strategy import Shard
from lt_data.fingerprint import fingerprint
from lt_data.reader import State
from lt_data.readers.dataloader import LoaderReader
from lt_data.readers.iterable import warn_of_sharing
from lt_data.resume.loader_copy import copied
from lt_data.resume.workers import is_stateful
from lt_data.shards import Order, Share, num_evaluation_batches, num_steps, training_shares


def own_shard(dataset: Any, shard: Shard) -> Any | None:
    """Return this rank's part of an iterable dataset that says how it splits, or None.

    It says so by a method ``shard(num_shards, index)`` (as Hugging Face's, whose ``num_shards`` must be a multiple of
    the number of ranks), or by the attribute ``shards_itself = True`` where its ``__iter__`` reads only this rank's
    part already.
    """
    if getattr(dataset, "shards_itself", False):
        return dataset
    split = getattr(dataset, "shard", None)
    pieces = getattr(dataset, "num_shards", shard.count)
    if isinstance(pieces, int) and pieces % shard.count:  # ranks would get different numbers of samples
        return None
    return split(shard.count, shard.index) if callable(split) else None


class SharedStream(IterableDataset[Any]):
    """Reads all of a dataset and yields this rank's share of each global batch: ``(samples, weight, fingerprint)``.

    To everybody else, such as a ``worker_init_fn``, it looks like the dataset: attributes are read from it and set on
    it.
    """

    def __init__(self, dataset: IterableDataset[Any], size: int, shard: Shard, drop_last: bool, training: bool) -> None:
        """Share ``dataset``; ``size`` samples are one rank's batch."""
        self.__dict__.update(
            _dataset=dataset,
            _size=size,
            _shard=shard,
            _drop_last=drop_last,
            _training=training,
            _starts=[0],
            used_up=False,
        )

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the dataset."""
        # copy and pickle ask for special methods before there is a dataset, and would recurse
        if name.startswith("__") or "_dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["_dataset"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the dataset."""
        setattr(self.__dict__["_dataset"], name, value)

    def start_at(self, starts: list[int]) -> None:
        """Have the next iteration read and drop so many samples: one number for each worker."""
        self.__dict__["_starts"] = starts

    def __iter__(self) -> Iterator[tuple[Any, float, str | None]]:
        """Yield this rank's shares."""
        worker = get_worker_info()
        start = self._starts[worker.id if worker is not None else 0]
        self.__dict__.update(_starts=[0] * len(self._starts), used_up=False)
        samples = iter(self._dataset)
        next(islice(samples, start, start), None)
        whole = self._size * self._shard.count
        mark: str | None = None
        while group := list(islice(samples, whole)):
            if self._drop_last and self._training and len(group) < whole:
                return
            self.__dict__["used_up"] = len(group) < whole
            first, mark = mark is None, mark or fingerprint(group[0])
            share = self._share(group)
            if share.items:
                yield share.items, share.weight, mark if first else None

    def _share(self, group: list[Any]) -> Share:
        """Return this rank's part of a global batch: in evaluation one of the batches that one process would read."""
        if not self._training:
            mine = group[self._shard.index * self._size :][: self._size]
            return Share([] if self._drop_last and len(mine) < self._size else mine, 1.0)
        numbers = next(training_shares(Order(range(len(group)), self._size), self._shard))
        return Share([group[number] for number in numbers.items], numbers.weight)


@dataclass
class _CollateShare:
    """A collate function for items of a :class:`SharedStream`: ``[batch, weight, fingerprint]``."""

    collate: Callable[[Any], Any]
    lone: bool

    def __call__(self, share: tuple[Any, float, str | None]) -> list[Any]:
        samples, weight, mark = share
        return [self.collate(samples[0] if self.lone else samples), weight, mark]


class SharedStreamReader(LoaderReader):
    """A DataLoader over an iterable dataset that does not say how it splits: each rank reads all and keeps its part.

    The last global batch is shared evenly. All ranks yield equally many batches in training.
    """

    kind = "shared stream"

    def __init__(self, loader: DataLoader[Any], shard: Shard, *, exact: bool, same: Callable[[str], None]) -> None:
        """Read ``loader`` as rank ``shard``.

        Args:
            loader: the user's.
            shard: which part.
            exact: True in training.
            same: called with a mark of the first sample, which must be the same on all ranks.
        """
        size = loader.batch_size or 1
        stream = SharedStream(loader.dataset, size, shard, loader.drop_last, exact)  # type: ignore[arg-type]
        made = copied(
            loader,
            dataset=stream,
            batch_sampler=None,
            batch_size=None,
            drop_last=False,
            collate_fn=_CollateShare(loader.collate_fn, loader.batch_sampler is None),
        )
        super().__init__(made, exact=exact)
        self.shard, self.uneven, self.size = shard, exact, size
        self.stream = stream
        self._same = same
        if shard.count > 1:
            pieces = getattr(loader.dataset, "num_shards", 0) if hasattr(loader.dataset, "shard") else 0
            warn_of_sharing(type(loader.dataset).__name__, pieces, shard.count)
        self._user_loader = loader
        self.unwrap = self._unwrap
        self._from_start()

    def _from_start(self) -> None:
        self._starts, self._from = [0] * max(self.loader.num_workers, 1), 0
        self.stream.start_at(self._starts)

    @property
    def length(self) -> int | None:
        loader = self._user_loader
        if not hasattr(loader.dataset, "__len__") or loader.num_workers > 1:
            return None  # workers that split the data may each end with a partial batch
        total = len(loader.dataset)
        if self.exact:
            return num_steps(total, self.size, self.shard.count, loader.drop_last)
        return num_evaluation_batches(Order(range(total), self.size, loader.drop_last), self.shard)

    def samples(self, batches: int) -> int | None:
        return None

    def accepts(self, kind: str, shard: Shard) -> bool:
        return kind == self.kind or (kind == "loader" and shard == Shard())

    def batches_done(self, state: State, batches: int) -> int:
        if state.get("ranks") == self.shard.count or self.length is None:
            return batches
        left = len(self._user_loader.dataset) - sum(self._read(state, batches))  # type: ignore[arg-type]
        return max(self.length - num_steps(left, self.size, self.shard.count, self._user_loader.drop_last), 0)

    def begin(self, epoch: int) -> Iterator[Any]:
        self._from_start()
        return super().begin(epoch)

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        if state.get("ranks") == self.shard.count:
            self._starts, self._from = state["starts"], state["from"]
            self.stream.start_at(self._starts)
            return super().resume(epoch, state, batches - self._from)
        self._starts, self._from = self._read(state, batches), self.batches_done(state, batches)
        if not is_stateful(self.stream):
            self.stream.start_at(self._starts)
        elif self.loader.num_workers:
            self._rest = {"workers": state["workers"], "born": self.indices.born}
        else:
            self.stream.load_state_dict(state["place"])
        return super().begin(epoch)

    def state(self, batches: int) -> State:
        own = {"ranks": self.shard.count, "starts": self._starts, "from": self._from, "size": self.size}
        return {**super().state(batches - self._from), **own}

    def _read(self, state: State, batches: int) -> list[int]:
        """Return how many samples all ranks have read in each worker, at a state that may be of one process."""
        workers = max(self.loader.num_workers, 1)
        done = batches - state.get("from", 0)
        turns = [len(range(worker, done, workers)) for worker in range(workers)]
        whole = state.get("ranks", 1) * self.size
        starts = state.get("starts", [0] * workers)
        return [start + count * whole for start, count in zip(starts, turns, strict=True)]

    def _unwrap(self, item: Any) -> Any:
        batch, self.weight, mark = self.copy.unwrap(item) if self.parcels else item
        if mark is not None and self.exact:
            self._same(mark)
        return batch
