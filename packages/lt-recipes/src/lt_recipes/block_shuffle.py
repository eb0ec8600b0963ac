"""Shuffling a stream so that a resume continues it exactly."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from lt_core.errors import ConfigError, warn

__all__ = ["BlockShuffle"]

_BEGINNING: dict[str, Any] = {"block": 0, "given": 0, "stream": None}


class BlockShuffle(IterableDataset[Any]):
    """Reads a stream in blocks of ``size`` samples, and gives each block in an order of its own.

    A buffer that is refilled sample by sample would have to be saved whole, with each batch that a worker sends; a
    block is read again. So the state is a few numbers and the stream's own, and a resume reads the samples that would
    have come. A stream of files mixes better if the order of the files is shuffled too.

    Args:
        dataset: yields samples in the same order in each epoch, or in one that follows from ``set_epoch``. Where it has
            ``state_dict`` and ``load_state_dict``, a resume reads at most one block again; else all that was read.
        size: samples of a block; so many are in memory.
        seed: of the order, together with the epoch, the block and the loader's worker.

    Raises:
        ConfigError: for a size below 1.
    """

    def __init__(self, dataset: Any, size: int = 1000, seed: int = 0) -> None:
        if size < 1:
            raise ConfigError(f"BlockShuffle(size={size}): expected at least 1 sample.", code="LT462")
        self.dataset, self.size, self.seed = dataset, size, seed
        self._epoch = torch.zeros((), dtype=torch.long).share_memory_()  # type: ignore[no-untyped-call]  # persistent workers see it
        self._place = _BEGINNING
        self._start: dict[str, Any] | None = None
        if callable(getattr(dataset, "shard", None)):
            self.shard = self._shard  # only where the stream says how it splits: the loader asks for it
            self.num_shards = getattr(dataset, "num_shards", None)

    def _shard(self, num_shards: int, index: int) -> BlockShuffle:
        return BlockShuffle(self.dataset.shard(num_shards=num_shards, index=index), self.size, self.seed)

    def set_epoch(self, epoch: int) -> None:
        """Take another order from the next iteration on."""
        self._epoch.fill_(epoch)
        if callable(getattr(self.dataset, "set_epoch", None)):
            self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        """Yield the samples."""
        start, self._start = self._start or _BEGINNING, None
        goes_on = start["stream"] is not None
        if goes_on:
            self.dataset.load_state_dict(start["stream"])
        samples = iter(self.dataset)
        if not goes_on and start["block"]:
            skipped = start["block"] * self.size
            warn(
                f"{type(self.dataset).__name__} has no state_dict() and load_state_dict(): a resume reads {skipped} "
                "samples again and drops them.",
                code="LT445",
            )
            next(islice(samples, skipped, skipped), None)
        worker = get_worker_info()
        number, epoch = worker.id if worker else 0, int(self._epoch)
        stateful = callable(getattr(self.dataset, "state_dict", None))
        for block in count(start["block"]):
            stream = self.dataset.state_dict() if stateful else None
            rows = list(islice(samples, self.size))
            if not rows:
                return
            Random(f"{self.seed}/{epoch}/{block}/{number}").shuffle(rows)
            done = start["given"] if block == start["block"] else 0
            for given, row in enumerate(rows[done:], start=done + 1):
                self._place = {"block": block, "given": given, "stream": stream}
                yield row

    def state_dict(self) -> dict[str, Any]:
        """Return where the iteration stands: block, samples given of it, and the stream's state before it."""
        return self._place

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Have the next iteration go on where ``state`` says."""
        self._start = self._place = dict(state)
