"""Datasets that are tables of tensors: whole batches are taken out of them by index, not sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

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

from lt_data.generators import HostState, set_host_state
from lt_data.indices import draws_once, read_notes
from lt_data.loader import LoaderSource

__all__ = ["Rows", "RowsSource", "find_rows", "index_tensors"]

Rows = Callable[[Tensor], Any]
"""Returns the batch of the rows at the given indices, int64, shape ``(batch,)``."""


def find_rows(loader: DataLoader[Any], *, any_sampler: bool = False, pins: bool = False) -> Rows | None:
    """Return how whole batches of ``loader`` are taken, bit for bit as the loader makes them, or None.

    That is a TensorDataset, or a Subset of one, with the default collate function and dense tensors.

    Args:
        loader: the user's.
        any_sampler: whether a sampler that draws at each index may be read at other moments than workers would.
        pins: whether batches go to pinned memory even where the loader does not say so.
    """
    if loader.batch_sampler is None or loader.collate_fn is not default_collate:
        return None
    if loader.num_workers and (
        loader.worker_init_fn is not None or not (any_sampler or draws_once(loader.batch_sampler))
    ):
        return None
    found = _table(loader.dataset)
    if found is None:
        return None
    tensors, chosen = found
    take = _take_pinned if (pins or loader.pin_memory) and torch.accelerator.is_available() else _take
    return (lambda index: take(tensors, index)) if chosen is None else (lambda index: take(tensors, chosen[index]))


_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)
_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_DTYPES = frozenset((*_FLOATS, *_INTEGERS))


def _table(dataset: Any) -> tuple[tuple[Tensor, ...], Tensor | None] | None:
    """Return the tensors of a dataset and which of their rows it shows, int64, shape ``(rows,)``; None for all."""
    if type(dataset) is TensorDataset:
        return (dataset.tensors, None) if all(map(_is_simple, dataset.tensors)) else None
    if type(dataset) is not Subset:
        return None
    found = _table(dataset.dataset)
    if found is None:
        return None
    try:
        mine = torch.as_tensor(dataset.indices, dtype=torch.int64)
    except (TypeError, ValueError, RuntimeError):
        return None
    tensors, chosen = found
    rows = len(tensors[0])
    mine = torch.where(mine < 0, mine + (rows if chosen is None else len(chosen)), mine)
    return tensors, mine if chosen is None else chosen[mine]


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


def index_tensors(loader: DataLoader[Any]) -> Iterator[Tensor]:
    """Yield each batch's indices, int64, shape ``(batch,)``; draws at the moments when the loader's samplers do."""
    batches = loader.batch_sampler
    if type(batches) is BatchSampler and type(batches.sampler) is RandomSampler and _is_permutation(batches.sampler):
        return _permuted(batches.sampler, batches.batch_size, batches.drop_last)
    if type(batches) is BatchSampler and type(batches.sampler) is SequentialSampler:
        return _split(torch.arange(len(batches.sampler), device="cpu"), batches.batch_size, batches.drop_last)
    return map(_as_index, batches)  # type: ignore[arg-type]


def _is_permutation(sampler: RandomSampler) -> bool:
    return not sampler.replacement and sampler.num_samples == len(sampler.data_source)


def _permuted(sampler: RandomSampler, size: int, drop_last: bool) -> Iterator[Tensor]:
    """Yield as a RandomSampler does; with a generator of its own it draws a second permutation when it ends."""
    total = len(sampler)
    generator = sampler.generator
    if generator is None:
        generator = torch.Generator()
        generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
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


class RowsSource(LoaderSource):
    """A DataLoader over a table of tensors, in training: its batches are taken whole, in this process.

    The batches, their order and all random draws are those of the DataLoader. A resume skips to its place.
    """

    def __init__(self, loader: DataLoader[Any], rows: Rows, *, exact: bool = True) -> None:
        """Read ``loader``, whose batches ``rows`` takes; ``exact`` where a resume must be possible (training)."""
        super().__init__(loader, exact=exact)
        self.ahead = self._bare = self._quiet
        self.unwrap = None
        self._rows = rows
        self._keeps_workers = bool(loader.num_workers and loader.persistent_workers)
        self._started = False

    def begin(self, epoch: int) -> Iterator[Any]:
        if self.exact:
            self._before = self._capture_before()
        self._starts_workers = not (self._started and self._keeps_workers)
        self.indices.begin(born=False)
        self._open = True
        return map(self._rows, self._indices())

    def rest_state(self) -> dict[str, Any]:
        return {**super().rest_state(), "started": self._started}

    def rest(self, state: dict[str, Any]) -> None:
        super().rest(state)
        self._started = bool(state.get("started"))

    def _resumed_iterator(self, state: dict[str, Any], batches: int) -> Iterator[Any]:
        notes = read_notes(state["notes"])
        self.indices.replay(batches, state["drawn"], notes)
        indices = self._indices(notes.get(0))
        if self._quiet:
            next(islice(indices, batches, batches), None)
        else:
            self.indices.skip()
        return map(self._rows, indices)

    def _indices(self, first: HostState | None = None) -> Iterator[Tensor]:
        """Return the index tensors of an epoch, drawing what the DataLoader's ``iter`` draws.

        Args:
            first: the generators' states before the first index was drawn, in an epoch that is replayed.
        """
        loader = self.loader
        watched = None if self._quiet else iter(self.indices)
        if self._starts_workers:  # the workers' base seed
            torch.empty((), dtype=torch.int64, device="cpu").random_(generator=loader.generator)
        self._started = True
        if watched is not None:
            return map(_as_index, watched)
        if first is not None:
            set_host_state(first)
        indices = index_tensors(loader)
        return _primed(indices) if loader.num_workers else indices


def _primed(indices: Iterator[Tensor]) -> Iterator[Tensor]:
    """Return ``indices`` with the first drawn now, as a DataLoader with workers does."""
    return chain(list(islice(indices, 1)), indices)


def _as_index(batch: Any) -> Tensor:
    return torch.tensor(batch, dtype=torch.int64, device="cpu")
