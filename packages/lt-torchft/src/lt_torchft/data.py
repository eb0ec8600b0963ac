"""Batches that the replicas of a step share out: each is read once by any number of replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from lt_core.errors import ConfigError
from lt_torchft.strategy import FaultTolerant

__all__ = ["Dealt"]


class Dealt(IterableDataset[Any]):
    """A dataset's batches in one order for all replicas; each step's participants take the next ones, one each.

    The batches of a dropped step are read again. An epoch ends for all replicas at the same step: the first that would
    begin in the next one. So no sample is lost or read twice, however many replicas there are in each step.

    Args:
        dataset: with a length and random access.
        batch_size: samples of a batch, of one replica.
        strategy: the Trainer's.
        shuffle: a new order in each epoch, from ``seed``, the same on all replicas.
        seed: for the order.
        collate_fn: makes a batch of a list of samples.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        strategy: FaultTolerant,
        *,
        shuffle: bool = True,
        seed: int = 0,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        self.dataset, self.batch_size, self.strategy = dataset, batch_size, strategy
        self.shuffle, self.seed, self.collate_fn = shuffle, seed, collate_fn
        self.samples = len(dataset)  # type: ignore[arg-type]
        self.batches = -(-self.samples // batch_size)
        self.epoch = 0
        self._order: tuple[int, list[int]] = (-1, [])
        if not self.batches:
            raise ConfigError("Dealt() got an empty dataset; expected one sample or more.", code="TORCHFT6")

    def loader(self) -> DataLoader[Any]:
        """Return the DataLoader for ``fit``; it reads in this process, since each step chooses its batches."""
        return DataLoader(self, batch_size=None)

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch next; the Trainer calls it."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        while True:
            first, mine = self.strategy.begin_step()
            if first >= (self.epoch + 1) * self.batches:
                return
            yield self.batch(mine)

    def batch(self, number: int) -> Any:
        """Return a batch by its number, counted over all epochs."""
        epoch, index = divmod(number, self.batches)
        if self._order[0] != epoch:
            generator = torch.Generator().manual_seed(hash((self.seed, epoch)) & (2**63 - 1))
            order = torch.randperm(self.samples, generator=generator) if self.shuffle else torch.arange(self.samples)
            self._order = (epoch, order.tolist())
        indices = self._order[1][index * self.batch_size : (index + 1) * self.batch_size]
        return self.collate_fn([self.dataset[each] for each in indices])

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the place in the data is the number of batches that were committed, which torchft keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`."""
