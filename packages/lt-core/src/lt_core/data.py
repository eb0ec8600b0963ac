"""What gives data to a run, and the feed that the loops read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from lt_core import plugins
from lt_core.errors import ConfigError
from lt_core.strategy import Shard
from lt_core.transfer import move_to_device

__all__ = ["DataSource", "Feed", "make_feed"]


class DataSource:
    """The data hooks that a ``LightningModule`` and a ``LightningDataModule`` share; all do nothing by default.

    A loader is any iterable of batches; a list, tuple or dict of loaders stands for several.
    """

    prepare_data_per_node: bool = True

    def prepare_data(self) -> None:
        """Download and write data. Runs on one process per node, so assign nothing to ``self`` here."""

    def setup(self, stage: str) -> None:
        """Read data and split it; runs on every process, once for each ``stage``.

        Args:
            stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        """

    def teardown(self, stage: str) -> None:
        """Give back what :meth:`setup` took."""

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


class Feed:
    """The batches of one loader, for one stage, on this rank. The default reads any iterable on one process.

    A run makes one feed for each loader and iterates it once an epoch. A resume is exact: the generators are set back to
    where they stood before the epoch's iterator was made, the batches done are read again and dropped, and then the
    generators of the checkpoint come back. Loaders with worker processes, shards, batch indexing and prefetching are
    lt-data's, which registers its own feed as ``feed`` in ``lt.data``.

    Attributes:
        loader: what the user gave.
        num_batches: batches in an epoch on this rank, or None where the loader has no length.
        weight: weight of the loss of the batch just yielded, 1.0 unless the last global batch is shared unevenly
            (then ``n_r * W / N``), 0.0 for a stand-in batch on a rank that has no sample left.
        uneven: True where :attr:`weight` can differ from 1.0.
        samples: global samples of this epoch yielded so far, or None where unknown.
    """

    weight: float = 1.0
    uneven: bool = False
    samples: int | None = None

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
        self.num_batches = _length(loader)
        self._epoch = 0
        self._done = 0
        self._skip = 0
        self._before: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yield this epoch's batches, on the device where there is a ``transfer``; after a resume, the rest of them."""
        from lt_core.seed import capture_generators, restore_generators

        self._done, skip, self._skip = 0, self._skip, 0
        if skip and self._before is not None:
            now = capture_generators()
            restore_generators(self._before)
        else:
            self._before = capture_generators() if self.stage == "fit" else None
        iterator = iter(self.loader)
        for _ in range(skip):
            next(iterator)
            self._done += 1
        if skip and self._before is not None:
            restore_generators(now)
        yield from self._read(iterator)

    def _read(self, iterator: Iterator[Any]) -> Iterator[Any]:
        transfer = self.transfer
        for batch in iterator:
            self._done += 1
            yield batch if transfer is None else transfer(batch)

    def set_epoch(self, epoch: int) -> None:
        """Tell samplers that want to know (``set_epoch``) which epoch comes next."""
        self._epoch = epoch
        for owner in (self.loader, getattr(self.loader, "sampler", None), getattr(self.loader, "batch_sampler", None)):
            if callable(getattr(owner, "set_epoch", None)):
                owner.set_epoch(epoch)  # type: ignore[union-attr]

    def state_dict(self) -> dict[str, Any]:
        """Return the place in this epoch: batches done, and the generators before its iterator was made."""
        return {"batches": self._done, "before": self._before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next iteration continue at the place that :meth:`state_dict` told."""
        self._skip, self._before = int(state["batches"]), state["before"]

    def close(self) -> None:
        """End workers and drop iterators."""


def make_feed(
    loader: Any,
    *,
    stage: str,
    shard: Shard = Shard(),
    seed: int = 0,
    transfer: Callable[[Any], Any] | None = None,
) -> Feed:
    """Return the feed for a loader: lt-data's where it is installed, else core's.

    Args:
        loader: any iterable of batches, or what the user's ``*_dataloader`` returned for one loader.
        stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        shard: the part of the data that this rank reads.
        seed: the run's seed, from which shards are shuffled.
        transfer: moves a batch to the device; None where nothing is to be moved.

    Raises:
        ConfigError: for more than one shard without lt-data.
        DataError: for a loader that cannot be read so.
    """
    factory = plugins.find("data", "feed")
    if factory is not None:
        feed: Feed = factory(loader, stage=stage, shard=shard, seed=seed, transfer=transfer)
        return feed
    if shard.count > 1:
        raise ConfigError(
            f"Sharding data over {shard.count} ranks comes with lt-data: {plugins.install_hint('lt-data')}", code="LT104"
        )
    return Feed(loader, stage=stage, shard=shard, seed=seed, transfer=transfer)


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None
