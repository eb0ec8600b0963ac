"""One loader as a feed reads it: an epoch from its start, or the rest of one after a resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lt_core.strategy import Shard

State = dict[str, Any]
"""A reader's state to go on from, as plain data."""


class Reader:
    """Makes the iterator of each epoch, and its state to make it again in the middle of one.

    Attributes:
        kind: of reader, kept in the state.
        shard: the part of the data that it reads.
        unwrap: turns an item into a batch when it is delivered; None where items are batches.
        parcels: whether items are parcels from workers: lists whose first element holds the batch.
        uneven: whether :attr:`weight` can differ from 1.0.
        weight: weight of the batch that was delivered last.
        dataloader_idx: which loader the batch delivered last is from, where several take turns.
        ahead: whether an item may be fetched before the step on the one before it has run: true only where no code of
            the user's runs in this process to make it, so that the order of random draws stays.
        begins: called when the first item is about to be asked for; None where nothing is to be done then.
    """

    kind: str = "plain"
    shard: Shard = Shard()
    unwrap: Callable[[Any], Any] | None = None
    parcels: bool = False
    uneven: bool = False
    weight: float = 1.0
    dataloader_idx: int = 0
    ahead: bool = False
    begins: Callable[[], None] | None = None

    @property
    def length(self) -> int | None:
        """Items in an epoch on this rank, or None where unknown."""
        return None

    @property
    def positions(self) -> list[int] | None:
        """Positions in the dataset of the samples of the batch that was delivered last; None where unknown."""
        return None

    def set_epoch(self, epoch: int) -> None:
        """Epoch ``epoch`` comes next; called on every rank."""

    def begin(self, epoch: int) -> Iterator[Any]:
        """Return the iterator of a new epoch, with the same random draws as the loader's own ``iter``."""
        raise NotImplementedError(f"{type(self).__name__} must define begin()")

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        """Return the iterator over the rest after ``batches`` items; restores the process's generators."""
        raise NotImplementedError(f"{type(self).__name__} must define resume()")

    def accepts(self, kind: str, shard: Shard) -> bool:
        """Return whether a state of this kind, written for this shard, can be resumed."""
        return kind == self.kind and shard == self.shard

    def content(self, item: Any) -> Any:
        """Return the batch in an item that is not delivered yet; None for one of another rank."""
        return item[0] if self.parcels else item

    def state(self, batches: int) -> State:
        """Return the state for :meth:`resume`, as plain data, ``batches`` items into the epoch."""
        return {}

    def state_before(self, batches: int) -> State | None:
        """Return :meth:`state` before the last of ``batches`` items was delivered; None where it is not known."""
        return None

    def rest_state(self) -> State:
        """Return the state that outlives an epoch (persistent workers), between two epochs."""
        return {}

    def rest(self, state: State) -> None:
        """Load :meth:`rest_state`, before the next epoch begins."""

    def batches_done(self, state: State, batches: int) -> int:
        """Return how many items are done at a state that another number of ranks may have written."""
        return batches

    def leave(self, finished: bool) -> None:
        """The epoch is over: read to its end, or left early."""

    def close(self) -> None:
        """End workers."""

    def batch_size(self, batches: int) -> int | None:
        """Return how many samples the sampler chose for the last of ``batches`` items; None where unknown."""
        return None

    def samples(self, batches: int) -> int | None:
        """Return how many samples all ranks have read after ``batches`` items; None where unknown."""
        return None

    def samples_done(self, state: State, batches: int) -> int | None:
        """Return :meth:`samples` at a state that was not resumed yet."""
        return self.samples(batches)

    def advice(self) -> str:
        """Return which setting would shorten the wait for data, in one sentence."""
        return "A DataLoader with num_workers=2 or more would read while the model computes."
