"""A stream that a resume reads again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

__all__ = ["Reread"]


class Reread(IterableDataset[Any]):
    """Reads a stream; a resume within an epoch reads it again from the epoch's start and drops the done samples.

    That is exact where ``state_dict()`` of the stream is not: where it shuffles in a buffer, as ``datasets`` does, or
    forgets what it has read ahead. It takes as long as the first reading.

    Args:
        dataset: yields samples in the same order in each epoch, or in one that follows from ``set_epoch``.

    Attributes:
        rereads: tells lt-data that reading again is meant, so that no resume warns of it; any stream may have it.
    """

    rereads = True

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        if callable(getattr(dataset, "shard", None)):
            self.shard = self._shard  # only where the stream says how it splits: the loader asks for it
            self.num_shards = getattr(dataset, "num_shards", None)

    def _shard(self, num_shards: int, index: int) -> Reread:
        return Reread(self.dataset.shard(num_shards=num_shards, index=index))

    def set_epoch(self, epoch: int) -> None:
        """Hand the epoch on, where the stream takes it."""
        if callable(getattr(self.dataset, "set_epoch", None)):
            self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        """Yield the samples."""
        return iter(self.dataset)
