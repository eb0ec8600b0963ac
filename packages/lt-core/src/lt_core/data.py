"""Data hooks, and the feeds that loops read batches from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import BatchSampler

from lt_core import plugins
from lt_core.batch import move_to_device
from lt_core.errors import ConfigError
from lt_core.interface import Interface
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import Shard

__all__ = ["DataSource", "Feed", "batch_size_at", "each_loader", "holds_loaders", "length_of", "make_feed", "set_epoch"]


class DataSource:
    """The data hooks that a ``LightningModule`` and a ``LightningDataModule`` share; all do nothing by default.

    A loader is any iterable of batches; a list, tuple or dict of loaders stands for several.
    """

    prepare_data_per_node: bool = True

    def prepare_data(self) -> None:
        """Download and write data. Runs on one process per node, so assign nothing to ``self`` here."""

    def setup(self, stage: str) -> None:
        """Read data and split it, on every process and in each run; a random split comes out as in the first one.

        Args:
            stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        """

    def teardown(self, stage: str) -> None:
        """Release the resources of :meth:`setup`."""

    def train_dataloader(self) -> Any:
        """Return the loader or loaders to train on."""
        raise NotImplementedError("train_dataloader is not defined")

    def val_dataloader(self) -> Any:
        """Return the loader or loaders to validate on."""
        raise NotImplementedError("val_dataloader is not defined")

    def test_dataloader(self) -> Any:
        """Return the loader or loaders to test on."""
        raise NotImplementedError("test_dataloader is not defined")

    def predict_dataloader(self) -> Any:
        """Return the loader or loaders to predict on."""
        raise NotImplementedError("predict_dataloader is not defined")

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Change a batch before it moves to the device; return it."""
        return batch

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Return the batch on ``device``; override for types of your own."""
        return move_to_device(batch, device)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Change a batch after it moved to the device (augment there, say); return it."""
        return batch


_TIMED_EVERY = 16
"""One batch in so many is timed: a look at the clock at each would cost as much as reading a list."""


class Feed(Interface):
    """The batches of one loader, for one stage, on this rank. The default reads any iterable on one process.

    A run makes one feed for each loader and iterates it once an epoch. A resume is exact: the generators are set back
    to where they stood before the epoch's iterator was made, the batches done are read again and dropped, and then the
    generators of the checkpoint come back (where no batch was done, the epoch begins again as it began). Loaders with
    worker processes, shards, batch indexing and prefetching are lt-data's, which registers its own feed as ``feed`` in
    ``lt.data``.

    An epoch gives the batches of the plain loop ``for batch in loader``, in its order, and draws the same random
    numbers and no others. No batch is read before it is asked for, and none is read twice; an epoch that was left
    begins anew, the user's errors come out as they are, and the place is known after them. :meth:`state_dict`
    returns plain data. Where ranks share a loader in training, all yield equally many batches, and each sample is
    read once.
    ``lt_testing.FeedKit`` tests these promises.

    Attributes:
        loader: the user's.
        num_batches: batches in an epoch on this rank, or None where the loader has no length.
        weight: weight of the loss of the batch just yielded, 1.0 unless the last global batch is shared unevenly
            (then ``n_r * W / N``), 0.0 for a stand-in batch on a rank that has no sample left.
        uneven: True where :attr:`weight` can differ from 1.0.
        indices: positions in the data set of the samples of the batch just yielded, in its order; None where unknown.
        stops_at_length: set it to have nothing asked of a loader that gave as many batches as it has: the plain loop
            asks once more, and a sampler may draw then.
        timed: set it to have :attr:`wait_seconds` counted from the next epoch on.
        wait_seconds: seconds spent waiting for batches, where :attr:`timed`; judged by the first and each 16th of them.
        read_seconds: seconds from the first to the last batch of each epoch, where :attr:`timed`.
    """

    weight = 1.0
    uneven = False
    indices: Sequence[int] | None = None
    stops_at_length = timed = False
    wait_seconds = read_seconds = 0.0

    def __init__(
        self,
        loader: Any,
        *,
        stage: str,
        shard: Shard = Shard(),
        seed: int = 0,
        transfer: Callable[[Any], Any] | None = None,
    ) -> None:
        """Make a feed; see :func:`make_feed` for the arguments."""
        self.loader = loader
        self.stage = stage
        self.shard = shard
        self.seed = seed
        self.transfer = transfer
        self.num_batches = length_of(loader)
        self._epoch = 0
        self._done = 0
        self._before: dict[str, Any] | None = None
        self._resume: dict[str, Any] | None = None
        self._turn = 0

    @property
    def samples(self) -> int | None:
        """Global samples of this epoch yielded so far, or None where unknown; after an epoch, all of its samples."""
        return None

    @property
    def batch_size(self) -> int | None:
        """Samples that the loader's sampler chose for the batch just yielded; None where unknown."""
        return batch_size_at(self.loader, self._done)

    @property
    def batches_done(self) -> int:
        """Batches of this epoch yielded so far; after :meth:`load_state_dict`, those done before the resume.

        Where the number of ranks has changed since, this is the number that leaves as many batches as there are samples
        left, so that ``num_batches`` stays the length of the epoch.
        """
        return self._done if self._resume is None else int(self._resume["batches"])

    def __iter__(self) -> Iterator[Any]:
        """Make the loader's iterator, and yield this epoch's batches on the device; after a resume, the rest of them.

        The loader's iterator is made here, not at the first ``next``: making it may use random numbers.
        """
        return self._deliver(self._open())

    def _open(self) -> Iterator[Any]:
        self._turn += 1
        self._done, state, self._resume = 0, self._resume, None
        if state is None or state["before"] is None or state["epoch"] != self._epoch:
            self._before = capture_generators() if self.stage == "fit" else None
            return iter(self.loader)
        now, self._before = capture_generators(), state["before"]
        restore_generators(state["before"])
        iterator: Iterator[Any] = iter(self.loader)
        for _ in range(state["batches"]):
            next(iterator, None)
        self._done = state["batches"]
        if self._done:  # else the sampler has yet to draw its order, and does so as it did
            restore_generators(now)
        return iterator

    def _deliver(self, iterator: Iterator[Any]) -> Iterator[Any]:
        transfer, turn, failed = self.transfer, self._turn, False
        try:
            for batch in self._timed(iterator) if self.timed else iterator:
                self._done += 1
                yield batch if transfer is None else transfer(batch)
        except GeneratorExit:
            # A plain loop asks once more, and the sampler may draw then. Not after an error: an iterator that its
            # traceback held goes at any time, in the middle of whatever comes next.
            if turn == self._turn and self._done == self.num_batches and not self.stops_at_length:
                next(iterator, None)
            raise
        except BaseException:
            failed = True  # the place is still asked for
            raise
        finally:
            if turn == self._turn and not failed:  # an iterator that was left behind ends after its successor was made
                self._before = None

    def _timed(self, iterator: Iterator[Any]) -> Iterator[Any]:
        end, began = object(), perf_counter()
        start, stands_for = began, 1  # the first batch, for which workers start, stands for itself alone
        try:
            while (batch := next(iterator, end)) is not end:
                self.wait_seconds += (perf_counter() - start) * stands_for
                yield batch
                yield from islice(iterator, _TIMED_EVERY - 1)
                start, stands_for = perf_counter(), _TIMED_EVERY
        finally:
            self.read_seconds += perf_counter() - began

    def set_epoch(self, epoch: int) -> None:
        """Call ``set_epoch`` of samplers and datasets that have one: this epoch comes next."""
        self._epoch = epoch
        set_epoch(self.loader, epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the place in this epoch: batches done, and the generators before its iterator was made."""
        # without these generators no later process reads the same batches: it begins the epoch anew
        return {"epoch": self._epoch, "batches": self._done if self._before is not None else 0, "before": self._before}

    def state_before(self) -> dict[str, Any]:
        """Return the place before the batch just yielded, for a run that an error ends in the middle of it.

        Where that place is not known, the one after it.
        """
        state = self.state_dict()
        return {**state, "batches": max(state["batches"] - 1, 0)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next iteration continue where :meth:`state_dict` was taken, if it is of the same epoch."""
        self._resume = state

    def in_order(self, by_rank: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the ranks' outputs in the order of the data.

        Args:
            by_rank: for each rank the result of each of its batches in evaluation.
        """
        return [output for outputs in by_rank for output in outputs]

    def advice(self) -> str:
        """Return which setting would shorten the wait for data, in one sentence."""
        return "DataLoader(num_workers=...) reads in other processes while the model computes."

    def wait_hint(self) -> str | None:
        """Return a hint for the user where more than a tenth of the reading time went to waiting, else None.

        Waits that come to less than two seconds are not worth a word. :attr:`timed` must have been set.
        """
        if self.wait_seconds <= max(0.1 * self.read_seconds, 2.0):
            return None
        share = min(self.wait_seconds / self.read_seconds, 1.0)
        return f"{share:.0%} of the time went to waiting for {self.stage} batches. {self.advice()}"

    def close(self) -> None:
        """End workers and drop iterators."""
        self._turn += 1


def make_feed(
    loader: Any,
    *,
    stage: str,
    shard: Shard = Shard(),
    seed: int = 0,
    transfer: Callable[[Any], Any] | None = None,
    gather: Callable[[Any], list[Any]] | None = None,
    stand_ins: bool = False,
    by_seed: bool = False,
) -> Feed:
    """Return the feed for a loader: lt-data's where it is installed, else core's.

    Args:
        loader: any iterable of batches, from a call or one of the user's ``*_dataloader`` hooks.
        stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        shard: the part of the data that this rank reads.
        seed: the run's seed, from which shards are shuffled.
        transfer: moves a batch to the device; None where nothing is to be moved.
        gather: returns every rank's value on every rank (``strategy.gather_objects``); used once a run, to see whether
            ranks that shard by themselves read the same samples.
        stand_ins: in evaluation, whether ranks that have no batch left yield stand-in batches of weight 0.0, so that
            all ranks yield equally many.
        by_seed: whether a single rank too reads in the order that follows from seed and epoch, as several do.

    Raises:
        ConfigError: for more than one shard without lt-data.
        DataError: for a loader that cannot be read so.
    """
    if factory := plugins.find("data", "feed"):
        options = {"gather": gather, "stand_ins": stand_ins, "by_seed": by_seed}  # a feed of 0.1 knows none of them
        more = {name: value for name, value in options.items() if value}
        feed: Feed = factory(loader, stage=stage, shard=shard, seed=seed, transfer=transfer, **more)
        return feed
    if shard.count > 1:
        raise ConfigError(
            f"Sharding data over {shard.count} ranks comes with lt-data: {plugins.install_hint('lt-data')}",
            code="LT104",
        )
    return Feed(loader, stage=stage, shard=shard, seed=seed, transfer=transfer)


def holds_loaders(given: Any) -> bool:
    """Return whether ``given`` is a list or dict of loaders, and not one loader such as a list of batches."""
    return isinstance(given, Mapping) or (isinstance(given, (list, tuple)) and _is_loader(given))


def each_loader(given: Any) -> list[Any]:
    """Return the flat list of the user's single loaders; empty for None or an empty list.

    A list or dict of loaders stands for several, and so does a combined loader that reads one after the other.
    """
    if getattr(given, "mode", None) == "sequential" and getattr(given, "limits", 0) is None:
        return [one for loader in given.flattened for one in each_loader(loader)]
    if given is None or (isinstance(given, (list, tuple)) and not given):
        return []
    if not holds_loaders(given):
        return [given]
    return [one for part in (given.values() if isinstance(given, Mapping) else given) for one in each_loader(part)]


def _is_loader(item: Any) -> bool:
    """Return whether an item of a list is a loader rather than a batch."""
    if isinstance(item, (list, tuple, Mapping)):
        parts = item.values() if isinstance(item, Mapping) else item
        return bool(item) and all(_is_loader(part) for part in parts)
    plain = isinstance(item, (torch.Tensor, str, bytes, int, float)) or hasattr(item, "dtype") or hasattr(item, "keys")
    movable = hasattr(item, "to") and not hasattr(item, "dataset")  # a batch of a class of its own
    return hasattr(item, "__iter__") and not plain and not movable


def set_epoch(loader: Any, epoch: int) -> None:
    """Call ``set_epoch`` of a loader, its dataset and its samplers, also of one inside a batch sampler; each once."""
    batches = getattr(loader, "batch_sampler", None)
    inner = [getattr(loader, name, None) for name in ("sampler", "dataset")]
    for owner in {id(owner): owner for owner in (loader, *inner, batches, getattr(batches, "sampler", None))}.values():
        if callable(getattr(owner, "set_epoch", None)):
            owner.set_epoch(epoch)


def batch_size_at(loader: Any, number: int) -> int | None:
    """Return how many samples torch's BatchSampler chooses for batch ``number`` (from 1 on); None for any other one,
    and past its end.
    """
    batches: Any = getattr(loader, "batch_sampler", None)
    total = length_of(batches.sampler) if type(batches) is BatchSampler else None
    left = 0 if total is None else total - (number - 1) * batches.batch_size
    return min(batches.batch_size, left) if left > 0 else None


def length_of(loader: Any) -> int | None:
    """Return how many batches ``loader`` says it has, or None where it does not say."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None
