"""Datasets that are tables of tensors: whole batches are taken out of them by index, not sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)
from torch.utils.data._utils import collate

from lt_data.reader import State
from lt_data.readers.dataloader import LoaderReader
from lt_data.resume.generators import HostState, set_host_state
from lt_data.resume.indices import draws_once, read_notes


class Rows(NamedTuple):
    """How whole batches are taken out of a dataset.

    Attributes:
        take: returns the batch of the rows at the given indices, int64, shape ``(batch,)``, none below 0.
        total: rows there are.
    """

    take: Callable[[Tensor], Any]
    total: int

    def indices(self, batch: Any) -> Tensor:
        """Return a sampler's batch of indices as :attr:`take` wants it."""
        index = torch.as_tensor(batch, dtype=torch.int64, device="cpu")
        return torch.where(index < 0, index + self.total, index)


def find_rows(loader: DataLoader[Any], *, any_sampler: bool = False, pins: bool = False) -> Rows | None:
    """Return how whole batches of ``loader`` are taken, bit for bit as the loader makes them, or None.

    That is a TensorDataset of dense tensors, a Hugging Face Arrow dataset without a transform of the user's, or a
    Subset of either, with the default collate function.

    Args:
        loader: the user's.
        any_sampler: whether a sampler that draws at each index may be read at other moments than workers would.
        pins: whether batches go to pinned memory even where the loader does not say so.
    """
    if loader.batch_sampler is None or loader.collate_fn is not default_collate:
        return None
    if collate.default_collate_fn_map.get(Tensor) is not collate.collate_tensor_fn:  # the user has extended it
        return None
    if loader.num_workers and (
        loader.worker_init_fn is not None or not (any_sampler or draws_once(loader.batch_sampler))
    ):
        return None
    device = torch.accelerator.current_accelerator(check_available=True)
    # of pinned memory a GPU of Apple's knows nothing: torch's own loader drops the argument there
    pins = (pins or loader.pin_memory) and device is not None and device.type != "mps"
    return _rows_of(loader.dataset, pins, in_workers=loader.num_workers > 0)


_DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        "float32 float64 float16 bfloat16 complex64 complex128 bool uint8 int8 int16 int32 int64".split()  # noqa: SIM905
    )
)


def _rows_of(dataset: Any, pins: bool, in_workers: bool) -> Rows | None:
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        if not all(map(_is_simple, tensors)):
            return None
        take = _take_pinned if pins else _take
        return Rows(lambda index: take(tensors, index), len(dataset))
    if _is_arrow(dataset) and not in_workers and not pins:  # decoding is work that workers share
        return Rows(lambda index: _take_columns(dataset, index), len(dataset))
    return _rows_of_subset(dataset, pins, in_workers) if type(dataset) is Subset else None


def _rows_of_subset(subset: Any, pins: bool, in_workers: bool) -> Rows | None:
    rows = _rows_of(subset.dataset, pins, in_workers)
    if rows is None:
        return None
    try:
        chosen = rows.indices(subset.indices)
    except (TypeError, ValueError, RuntimeError):
        return None
    take = rows.take
    return Rows(lambda index: take(chosen.index_select(0, index)), len(chosen))


def _is_arrow(dataset: Any) -> bool:
    """Return whether ``dataset`` is a Hugging Face Arrow dataset in a format of their own."""
    kind = type(dataset)
    if kind.__name__ != "Dataset" or not kind.__module__.startswith("datasets."):
        return False
    return dataset.format["type"] in (None, "python", "numpy", "torch") and "__getitems__" in vars(kind)


def _take_columns(dataset: Any, index: Tensor) -> dict[str, Any]:
    """Return the columns at ``index``; each is collated as the default collate function does it from rows."""
    columns = dataset[index.tolist()]
    return {
        name: column if type(column) is Tensor else default_collate(list(column)) for name, column in columns.items()
    }


def _is_simple(tensor: Tensor) -> bool:
    return (
        type(tensor) is Tensor
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and tensor.dim() > 0
        and tensor.is_contiguous()
        and not tensor.requires_grad
        and tensor.dtype in _DTYPES
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _take(tensors: tuple[Tensor, ...], index: Tensor) -> list[Tensor]:
    return [tensor.index_select(0, index) for tensor in tensors]


def _take_pinned(tensors: tuple[Tensor, ...], index: Tensor) -> list[Tensor]:
    batch = []
    for tensor in tensors:
        out = torch.empty((len(index), *tensor.shape[1:]), dtype=tensor.dtype, pin_memory=True)
        batch.append(torch.index_select(tensor, 0, index, out=out))
    return batch


def index_tensors(loader: DataLoader[Any], rows: Rows) -> Iterator[Tensor]:
    """Yield each batch's indices, int64, shape ``(batch,)``; draws at the moments when the loader's samplers do."""
    batches: Any = loader.batch_sampler
    sampler = batches.sampler if type(batches) is BatchSampler else None
    if type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(sampler.data_source):
        return _permuted(sampler, batches.batch_size, batches.drop_last)
    if type(sampler) is SequentialSampler:
        return _split(torch.arange(len(sampler), device="cpu"), batches.batch_size, batches.drop_last)
    return map(rows.indices, batches)


def _permuted(sampler: RandomSampler, size: int, drop_last: bool) -> Iterator[Tensor]:
    """Yield as a RandomSampler does; with a generator of its own it draws a second permutation when it ends."""
    total = len(sampler)
    generator = sampler.generator
    if generator is None:
        generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
    order = torch.randperm(total, generator=generator)
    full = total // size * size
    if full:
        yield from torch.split(order[:full], size)
    torch.randperm(total, generator=generator)
    if full < total and not drop_last:
        yield order[full:]


def _split(order: Tensor, size: int, drop_last: bool) -> Iterator[Tensor]:
    kept = order[: len(order) // size * size if drop_last else None]
    return iter(torch.split(kept, size) if len(kept) else ())


class RowsReader(LoaderReader):
    """A DataLoader over a table of tensors, in training: its batches are taken whole, in this process.

    The batches, their order and all random draws are the DataLoader's. A resume skips to its place.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        rows: Rows,
        find: Callable[[], Rows | None],
        *,
        exact: bool = True,
        noted: bool = False,
    ) -> None:
        """Read ``loader``.

        Args:
            loader: the user's.
            rows: takes its batches.
            find: returns the same again, for the data as it is then.
            exact: whether a resume in the middle of an epoch must be possible (training).
            noted: whether :attr:`positions` is wanted (prediction).
        """
        super().__init__(loader, exact=exact, noted=noted)
        self.ahead = self._bare = self._quiet
        self.parcels, self.unwrap = False, None if self.noted is None else self.noted.delivered
        self._rows, self._find = rows, find
        self._started = False

    def begin(self, epoch: int) -> Iterator[Any]:
        if self.exact:
            self._before = self._capture_before()
        self._starts_workers = not (self._started and self.copy.persistent)
        self.indices.begin(born=False)
        self._open = True
        self._rows = self._find() or self._rows  # tensors and indices may be others than in the last epoch
        indices = self._indices()
        return map(self._rows.take, indices if self.noted is None else self.noted.note(indices))

    def rest_state(self) -> State:
        return {**super().rest_state(), "started": self._started}

    def rest(self, state: State) -> None:
        super().rest(state)
        self._started = bool(state.get("started"))

    def _resumed_iterator(self, state: State, batches: int) -> Iterator[Any]:
        notes = read_notes(state["notes"])
        self.indices.replay(batches, state["drawn"], notes)
        indices = self._indices(notes.get(0))
        if self._quiet:
            next(islice(indices, batches, batches), None)
            if state["drawn"] > batches:
                indices = _primed(indices)
        else:
            self.indices.skip()
        return map(self._rows.take, indices)

    def _indices(self, first: HostState | None = None) -> Iterator[Tensor]:
        """Return the index tensors of an epoch, with the same random draws as the DataLoader's ``iter``.

        Args:
            first: the generators' states before the first index was drawn, in an epoch that is replayed.
        """
        loader = self.loader
        watched = None if self._quiet else iter(self.indices)
        if self._starts_workers:  # the workers' base seed
            torch.empty((), dtype=torch.int64, device="cpu").random_(generator=loader.generator)
        self._started = True
        if watched is not None:
            return map(self._rows.indices, watched)
        if first is not None:
            set_host_state(first)
        indices = index_tensors(loader, self._rows)
        return _primed(indices) if loader.num_workers else indices


def _primed(indices: Iterator[Tensor]) -> Iterator[Tensor]:
    """Return ``indices`` with the first drawn now, as a DataLoader with workers does."""
    return chain(list(islice(indices, 1)), indices)
