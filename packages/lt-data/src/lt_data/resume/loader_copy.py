"""A copy of the user's DataLoader, with its dataset, collate function and workers, that reads other indices."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from lt_core.errors import warn
from lt_data.resume.generators import find_owned, owned_states
from lt_data.resume.workers import Begin, Parcel, Traveling, WorkerState, started


def copied(loader: DataLoader[Any], **changes: Any) -> DataLoader[Any]:
    """Return a shallow copy of ``loader`` with ``changes``; a DataLoader refuses to be changed itself."""
    made = copy.copy(loader)
    made.__dict__.update(changes, _iterator=None)
    return made


class LoaderCopy:
    """Iterates over ``indices`` and keeps the workers' states, which a resume restores.

    Attributes:
        states: each worker's state after its last delivered batch.
        next_worker: the worker whose batch comes next.
    """

    def __init__(self, loader: DataLoader[Any], indices: Iterable[Any] | None, *, travel: bool) -> None:
        """Read with ``loader``'s dataset and workers.

        Args:
            loader: the user's; only copied.
            indices: indices, or batches of them; None for the loader's own. It is asked for
                an iterator once an epoch (twice at the first where there are workers).
            travel: whether the workers' states are needed.
        """
        self.loader = loader
        self.indices = indices
        self.workers = loader.num_workers
        self.persistent = bool(self.workers and loader.persistent_workers)
        self.travels = travel and self.workers > 0
        self.states: dict[int, WorkerState] = {}
        self.next_worker = 0
        self._before: list[str] = []  # states of the generators of which each worker gets a copy
        self._copied: DataLoader[Any] | None = None
        self._iterator: Iterator[Any] | None = None

    @property
    def alive(self) -> bool:
        """Whether persistent workers wait for the next epoch."""
        return self._copied is not None and self._copied._iterator is not None

    def open(
        self, *, states: dict[int, WorkerState] | None = None, first: int = 0, base: torch.Generator | None = None
    ) -> Iterator[Any]:
        """Return the iterator of an epoch.

        Args:
            states: workers' states to be put back; new workers are started then.
            first: the worker that gets the first batch.
            base: source of the workers' base seed; None for the loader's.
        """
        self.next_worker = first
        if self.alive and states is None:
            assert self._copied is not None
            self._iterator = iter(self._copied)
            return self._iterator
        made = self._copy(states or {}, base)
        self.states = dict(states or {})
        self._iterator = started(made, first) if self.workers else iter(made)
        if self.persistent:
            # as DataLoader.__iter__ does, which asks its persistent workers for the next epoch by it
            made.__dict__["_iterator"] = self._iterator
            self._copied = made
        return self._iterator

    def bare(self) -> Iterator[Any]:
        """Return an iterator over the user's own loader, whose workers do not outlive it."""
        self._iterator = started(self._copy({}, None)) if self.workers else iter(self.loader)
        return self._iterator

    def unwrap(self, parcel: Parcel) -> Any:
        """Return the batch of a parcel that is being delivered, and keep the state of the worker that made it."""
        batch, worker, state = parcel
        self.next_worker = (worker + 1) % self.workers
        if state is not None:
            if self.states.keys() == {0} and worker == 1:
                self._compare(self.states[0].owned, state.owned)
            self.states[worker] = state
        return batch

    def _compare(self, *drawn: list[str]) -> None:
        """Warn where two workers have drawn the same numbers from their copies of a generator."""
        if any(first == second != before for first, second, before in zip(*drawn, self._before, strict=False)):
            warn(
                f"{type(self.loader.dataset).__name__} or its collate function holds a random generator, of which each "
                "worker of the DataLoader has a copy: workers 0 and 1 drew the same numbers. Make it in the worker: "
                "numpy.random.default_rng(torch.initial_seed()) at its first use.",
                code="LT465",
            )

    def drain(self) -> None:
        """Wait for the batches that persistent workers have in flight; no further index may come meanwhile."""
        if self._iterator is not None:
            for parcel in self._iterator:
                self.unwrap(parcel)
            self._iterator = None

    def used_up(self) -> bool:
        """Return whether an iterable dataset read in this process has no sample left."""
        fetcher = getattr(self._iterator, "_dataset_fetcher", None)
        return bool(getattr(fetcher, "ended", False) or getattr(self.loader.dataset, "used_up", False))

    def leave(self, used_up: bool) -> None:
        """Let go of the iterator; workers that do not persist end with it.

        Args:
            used_up: an iterable dataset was read to its end, and starts anew in the next epoch.
        """
        if not self.persistent:
            _end_workers(self._iterator)
            self._iterator = None
        for worker, state in self.states.items():
            place = None if used_up or state.used_up else state.place
            self.states[worker] = state._replace(place=place, used_up=False)

    def close(self) -> None:
        """End all workers."""
        _end_workers(self._iterator)
        if self._copied is not None:
            _end_workers(self._copied._iterator)
        self._iterator = self._copied = None
        self.states = {}

    def worker_states(self) -> dict[str, Any]:
        """Return the workers' states as a checkpoint holds them."""
        return {str(worker): state.plain() for worker, state in self.states.items()}

    def _copy(self, states: dict[int, WorkerState], base: torch.Generator | None) -> DataLoader[Any]:
        loader, changes = self.loader, dict[str, Any]()
        if self.indices is not None:
            changes["batch_sampler" if loader.batch_sampler is not None else "sampler"] = self.indices
        if self.travels:
            self._before = owned_states(find_owned((loader.dataset, loader.collate_fn)))
            stream = loader.batch_size if isinstance(loader.dataset, IterableDataset) else None
            changes["collate_fn"] = Traveling(loader.collate_fn, stream)
        if self.workers:
            changes["worker_init_fn"] = Begin(loader.worker_init_fn, loader.collate_fn, states)
        if base is not None:
            changes["generator"] = base
        return copied(loader, **changes)


def read_worker_states(states: dict[str, Any]) -> dict[int, WorkerState]:
    """Inverse of the plain form of :meth:`LoaderCopy.worker_states`."""
    return {int(worker): WorkerState.of(state) for worker, state in states.items()}


def _end_workers(iterator: Any) -> None:
    """End an iterator's workers now: after an error its traceback holds the iterator, often until a collection."""
    shut_down = getattr(iterator, "_shutdown_workers", None)
    if shut_down is not None:
        shut_down()
