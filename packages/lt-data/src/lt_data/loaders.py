"""Chooses the reader of a user's loader; errors for values that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from lt_core.data import holds_loaders, length_of
from lt_core.errors import DataError, warn
from lt_core.seed import pl_worker_init_function
from lt_core.strategy import Shard
from lt_data.combined import CombinedLoader
from lt_data.feed import LoaderFeed
from lt_data.fingerprint import require_same
from lt_data.lookahead import copies_of
from lt_data.reader import Reader
from lt_data.readers.dataloader import LoaderReader
from lt_data.readers.iterable import IterableReader, SharedIterableReader
from lt_data.readers.rows import RowsReader, find_rows
from lt_data.resume.indices import samplers_of
from lt_data.resume.loader_copy import copied

__all__ = ["feed"]


def feed(
    loader: Any,
    *,
    stage: str,
    shard: Shard = Shard(),
    seed: int = 0,
    transfer: Callable[[Any], Any] | None = None,
    gather: Callable[[Any], list[Any]] | None = None,
    stand_ins: bool = False,
    by_seed: bool = False,
) -> LoaderFeed:
    """Return the feed for ``loader``; see :func:`lt_core.data.make_feed`, which finds it by its name in ``lt.data``.

    Raises:
        DataError: if it is no loader, or a training loader without batches.
    """
    if holds_loaders(loader):
        loader = CombinedLoader(loader, "max_size_cycle" if stage == "fit" else "sequential")
    check_loader(loader, stage)
    exact = stage == "fit"
    copies = copies_of(transfer)
    pins, noted = copies is not None and copies.pinned, stage == "predict"
    maker = _Maker(loader, shard, seed, exact, stand_ins, gather, pins=pins, noted=noted, by_seed=by_seed)
    reader = maker.combined(stage) if isinstance(loader, CombinedLoader) else maker.reader()
    # readers for ranks and several loaders are imported only there: every import is start-up time
    if gather is not None and maker.is_users_own and (exact or stand_ins):
        from lt_data.readers.joined import join

        reader = join(reader, gather, exact=exact)
    made = LoaderFeed(
        loader,
        reader,
        stage=stage,
        shard=shard,
        seed=seed,
        transfer=transfer,
        substitute=maker.substitute,
        gather=gather if exact and maker.is_users_own else None,
        copies=copies,
    )
    if exact and made.num_batches == 0:
        raise _empty(loader, shard)
    return made


@dataclass
class _Maker:
    """Chooses the reader for one loader."""

    loader: Any
    shard: Shard
    seed: int
    exact: bool
    stand_ins: bool
    gather: Callable[..., Any] | None
    pins: bool
    noted: bool
    by_seed: bool

    def __post_init__(self) -> None:
        self.is_users_own = self.shard.count == 1  # then several ranks, if there are, shard by themselves

    def reader(self) -> Reader:
        """Return the reader of this rank's part."""
        loader = self.loader
        if not is_plain_loader(loader):
            return self._iterable()
        if isinstance(loader.dataset, IterableDataset):
            return self._stream()
        if self.shard.count > 1 and not _is_sharded(loader, self.shard, self.exact):
            return self.sharded()
        if self.by_seed and length_of(loader) is not None and not _own_sampler(loader):
            return self.sharded()
        self.is_users_own = True
        loader = self._seeded(loader)
        find = partial(find_rows, loader, pins=self.pins)
        if (rows := find()) is not None:
            return self._own(RowsReader(loader, rows, find, exact=self.exact, noted=self.noted))
        # a batch sampler of the user's makes the batches: nothing else knows their sizes
        noted = self.noted or type(loader.batch_sampler) not in (BatchSampler, type(None))
        return self._own(LoaderReader(loader, exact=self.exact, noted=noted))

    def _own(self, reader: Reader) -> Reader:
        reader.shard = self.shard
        return reader

    def sharded(self) -> Reader:
        """Return the reader of a part of a map-style loader, in the order common to all ranks."""
        from lt_data.readers.sharded import ShardedReader

        return ShardedReader(
            self.loader,
            self.shard,
            self.seed,
            find=partial(find_rows, self.loader, any_sampler=True, pins=self.pins),
            exact=self.exact,
            stand_ins=self.stand_ins,
            gather=self.gather,
        )

    def substitute(self, kind: str) -> Reader | None:
        """Return the reader that continues an epoch of several ranks on one process."""
        if self.shard.count > 1 or not is_plain_loader(self.loader):
            return None
        from lt_data.readers.sharded import ShardedReader
        from lt_data.readers.stream import SharedStreamReader

        if kind == ShardedReader.kind:
            return self.sharded()
        return self._shared_stream(self.loader) if kind == SharedStreamReader.kind else None

    def combined(self, stage: str) -> Reader:
        """Return the reader of a CombinedLoader."""
        from lt_data.readers.combined import CombinedReader

        gather = None if self.is_users_own else self.gather  # the ranks' own ones are joined as a whole
        feeds = [
            feed(loader, stage=stage, shard=self.shard, seed=self.seed, gather=gather, stand_ins=self.stand_ins)
            for loader in self.loader.flattened
        ]
        return CombinedReader(self.loader, feeds, self.shard)

    def _iterable(self) -> Reader:
        if self.shard.count == 1:
            return IterableReader(self.loader, exact=self.exact)
        same = require_same(self.gather, type(self.loader).__name__)
        return SharedIterableReader(self.loader, self.shard, exact=self.exact, stand_ins=self.stand_ins, same=same)

    def _stream(self) -> Reader:
        loader = self.loader
        if self.shard.count > 1:
            from lt_data.readers.stream import own_shard

            part = own_shard(loader.dataset, self.shard)
            if part is None:
                return self._shared_stream(loader)
            loader = self._seeded(copied(loader, dataset=part))
            self.is_users_own = True
        if self.gather is not None and self.is_users_own and self.exact:
            from lt_data.readers.joined import counting

            loader = counting(loader)
        return self._own(LoaderReader(loader, exact=self.exact))

    def _seeded(self, loader: DataLoader[Any]) -> DataLoader[Any]:
        """Return a loader that shards by itself with workers seeded by rank, where ``seed_everything`` was asked to."""
        asked = os.environ.get("LT_SEED_WORKERS") == "1" and self.shard.count > 1
        if not (asked and loader.num_workers and loader.worker_init_fn is None):
            return loader
        return copied(loader, worker_init_fn=partial(pl_worker_init_function, rank=self.shard.index))

    def _shared_stream(self, loader: DataLoader[Any]) -> Reader:
        from lt_data.readers.stream import SharedStreamReader

        same = require_same(self.gather, type(loader.dataset).__name__)
        return SharedStreamReader(loader, self.shard, exact=self.exact, same=same)


def _is_sharded(loader: DataLoader[Any], shard: Shard, training: bool) -> bool:
    """Return whether the user's own DistributedSampler shards already.

    Raises:
        DataError: when it does so for another rank.
    """
    own = _own_sampler(loader)
    if own is None:
        return False
    if (own.rank, own.num_replicas) != shard:
        raise DataError(
            f"The loader's DistributedSampler is for rank {own.rank} of {own.num_replicas}; this is rank "
            f"{shard.index} of {shard.count}. Remove it: lt shards a plain DataLoader by itself.",
            code="LT454",
        )
    if not training and len(own.dataset) % own.num_replicas and not own.drop_last:  # type: ignore[arg-type]
        warn(
            "A DistributedSampler repeats samples to give each rank as many, so that metrics count them twice. Remove "
            "it: lt shards a plain DataLoader, and counts each sample once.",
            code="LT455",
        )
    return True


def _own_sampler(loader: DataLoader[Any]) -> DistributedSampler[Any] | None:
    return next((sampler for sampler in samplers_of(loader) if isinstance(sampler, DistributedSampler)), None)


def is_plain_loader(loader: Any) -> bool:
    """Return whether ``loader`` is a DataLoader that iterates as torch's own does."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and type(loader)._get_iterator is DataLoader._get_iterator
    )


def check_loader(loader: Any, stage: str) -> None:
    """Raise if ``loader`` is no loader.

    Raises:
        DataError: with the expected kinds, the value received, and the remedy.
    """
    name = type(loader).__name__
    expected = f"{stage}: expected a DataLoader or another iterable of batches, got"
    if isinstance(loader, type):
        raise DataError(
            f"{expected} the class {loader.__name__}. Make an instance: {loader.__name__}(...).", code="LT413"
        )
    if isinstance(loader, Dataset) and not isinstance(loader, IterableDataset):
        shuffle = ", shuffle=True" if stage == "fit" else ""
        raise DataError(
            f"{expected} the dataset {name}. Wrap it: DataLoader(dataset, batch_size=32{shuffle}).", code="LT414"
        )
    if isinstance(loader, (str, bytes, Tensor, int, float, type(None))) or not hasattr(loader, "__iter__"):
        what = "a function; call it" if callable(loader) else f"{loader!r:.80} ({name})"
        raise DataError(f"{expected} {what}.", code="LT413")


def _empty(loader: Any, shard: Shard) -> DataError:
    dataset, size = getattr(loader, "dataset", None), getattr(loader, "batch_size", None)
    why = ""
    if isinstance(loader, DataLoader) and not isinstance(dataset, IterableDataset):
        samples = len(dataset)  # type: ignore[arg-type]
        why = f": its dataset has {samples} samples"
        if samples and loader.drop_last:
            batch = f"batch of {size}" if shard.count == 1 else f"global batch of {size} on each of {shard.count} ranks"
            why += f", fewer than one {batch}, with drop_last=True. Take a smaller batch_size, or drop_last=False"
    return DataError(f"The training loader {type(loader).__name__} is empty{why}.", code="LT404")
