"""The user's DataLoader on one process: read as by hand, with the state to continue in an epoch's middle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from lt_core.data import batch_size_at, length_of
from lt_core.errors import DataError, warn
from lt_data.reader import Reader, State
from lt_data.resume.generators import (
    find_owned,
    host_state,
    owned_states,
    plain,
    set_host_state,
    set_owned_states,
    unplain,
)
from lt_data.resume.indices import Noted, Watched, draws_once, plain_notes, read_notes, samplers_of
from lt_data.resume.loader_copy import LoaderCopy, read_worker_states
from lt_data.resume.workers import has_shuffle_buffer, is_stateful, keeps_state


def index_sampler(loader: DataLoader[Any]) -> Any:
    """Return the batch sampler, or the sampler if nothing is batched."""
    return loader.batch_sampler if loader.batch_sampler is not None else loader.sampler


class WorkerReader(Reader):
    """A DataLoader read through a copy of it; its workers may outlive an epoch.

    Attributes:
        born: the generator state behind the base seed of the living workers.
    """

    loader: DataLoader[Any]
    exact: bool
    indices: Any
    copy: LoaderCopy
    born: Any = None
    _open = False
    _rest: State | None = None

    def _owned(self) -> list[Any]:
        """Return the generators that live in this process."""
        raise NotImplementedError

    def _stop(self) -> None:
        """Have no further index drawn in this epoch."""
        self.indices.stopped = True

    def _settle(self) -> None:
        """Let persistent workers finish their tasks; their states are then those at the next epoch's start."""
        if self.copy.persistent and self.copy.alive and not self._open:
            self._stop()
            self.copy.drain()

    def rest_state(self) -> State:
        if not self.exact:
            return {}
        self._settle()
        kept: State = {"owned": owned_states(self._owned())}
        return {**kept, "workers": self.copy.worker_states(), "born": self.born} if self.copy.persistent else kept

    def rest(self, state: State) -> None:
        set_owned_states(self._owned(), state.get("owned", ()))
        if self.copy.persistent and state.get("workers"):
            self._rest = state

    def close(self) -> None:
        self._open = False
        self.copy.close()

    def advice(self) -> str:
        return advice(self.loader)


class LoaderReader(WorkerReader):
    """A DataLoader, with or without workers, over map-style or iterable data, in training.

    A map-style dataset is not read for the batches that a resume skips: only their indices are drawn again. An iterable
    one continues by its ``state_dict``, where it has one, else its batches are read again and dropped.

    The state holds the generators before the epoch's iterator was made (``before``), the loader's own then and
    now, notes on the sampler's draws, the index batches drawn, the workers' states, and the origin of their base seed.
    """

    kind = "loader"

    def __init__(self, loader: DataLoader[Any], *, exact: bool = True, noted: bool = False) -> None:
        """Read ``loader``.

        Args:
            loader: the user's.
            exact: whether a resume in the middle of an epoch must be possible (training).
            noted: whether :attr:`positions` is wanted (prediction), or the sampler alone knows the batches' sizes.
        """
        self.loader = loader
        self.exact = exact
        self.streams = isinstance(loader.dataset, IterableDataset)
        sampler = index_sampler(loader)
        quiet = self.streams or draws_once(sampler)
        self.indices = Watched(sampler, generator=loader.generator, watch=not quiet)
        noted = noted and not self.streams and getattr(loader, "in_order", True)
        self.noted = Noted(self.indices if exact else sampler) if noted else None
        self.copy = LoaderCopy(loader, self.indices if exact and self.noted is None else self.noted, travel=exact)
        workers = loader.num_workers
        self.ahead = bool(workers) and quiet
        self.parcels = self.copy.travels
        self.unwrap = self.copy.unwrap if self.parcels else None
        if self.noted is not None:
            self.unwrap = self._delivered if self.parcels else self.noted.delivered
        self._quiet = quiet
        self._bare = False
        if exact and self.streams and keeps_state(loader.dataset) and has_shuffle_buffer(loader.dataset):
            warn(
                "The shuffle buffer of datasets is not in its state_dict(): a resume in the middle of an epoch reads "
                "the stream again from the epoch's start. lt.data.BlockShuffle(rows, size=...) in place of "
                "rows.shuffle() goes on where it stood; lt.data.Reread(rows) says that reading again is meant.",
                code="LT464",
            )
        rereads = exact and self.streams and not workers and not is_stateful(loader.dataset)
        self._reread = Watched(loader) if rereads else None
        self._samplers = [sampler for sampler in samplers_of(loader) if keeps_state(sampler)]
        self._starts_workers = False
        self._before: State = {}
        self.begins = self._note_first if exact and quiet and not workers and not self.streams else None

    @property
    def length(self) -> int | None:
        """Batches in an epoch."""
        return length_of(self.loader)

    @property
    def positions(self) -> list[int] | None:
        return None if self.noted is None else self.noted.positions

    def batch_size(self, batches: int) -> int | None:
        return batch_size_at(self.loader, batches) if self.noted is None else self.noted.batch_size

    def begin(self, epoch: int) -> Iterator[Any]:
        if not self.exact:  # persistent workers are the feed's own, so that they end with it
            own = self.copy.persistent or self.noted is not None
            return self.copy.open() if own else self.copy.bare()
        self._settle()
        self._before = self._capture_before()
        self._starts_workers = not self.copy.alive and self._rest is None
        self.indices.begin(born=self._starts_workers)
        self._open = True
        if self._reread is not None:
            self._reread.begin(born=True)
            return iter(self._reread)
        self._bare = self._quiet and not self.loader.num_workers and self.noted is None
        if self._bare:  # nothing to watch: the user's own loader is read
            return self.copy.bare()
        return self.copy.open() if self._rest is None else self._revive(self._rest)

    def resume(self, epoch: int, state: State, batches: int) -> Iterator[Any]:
        self._check_unchanged(state)
        now = host_state()
        self._settle()
        self._before = {name: state[name] for name in ("before", "owned_before", "samplers_before", "places_before")}
        self._starts_workers = state["starts_workers"]
        self._restore_before(state)
        iterator = self._resumed_iterator(state, batches)
        set_owned_states(self._owned(), state["owned"])
        # the iterator begins in the past, with the generators of that time; the run goes on with its own
        set_host_state(now)
        self._open = True
        return iterator

    def state(self, batches: int) -> State:
        if not self._open:
            return {}
        place = is_stateful(self.loader.dataset) and not self.loader.num_workers
        watched = self.indices if self._reread is None else self._reread
        return {
            **self._before,
            "owned": owned_states(self._owned()),
            "samplers": self._places(),
            "drawn": batches if self._bare else watched.drawn,
            "notes": plain_notes(watched.notes),
            "starts_workers": self._starts_workers,
            "born": self.born,
            "workers": self.copy.worker_states(),
            "place": self.loader.dataset.state_dict() if place else None,  # type: ignore[attr-defined]
            "used_up": place and self.copy.used_up(),
            "next_worker": self.copy.next_worker,
            "num_workers": self.loader.num_workers,
            "shape": self._shape(),
        }

    def state_before(self, batches: int) -> State | None:
        return None if is_stateful(self.loader.dataset) else self.state(batches)  # its draws stay

    @property
    def born(self) -> Any:
        return self.indices.born

    def rest_state(self) -> State:
        kept = super().rest_state()
        return {**kept, "samplers": self._places()} if self.exact else kept

    def rest(self, state: State) -> None:
        super().rest(state)
        self._load_places(state["samplers"])

    def leave(self, finished: bool) -> None:
        self._open = False
        self.copy.leave(finished and self.streams)

    def samples(self, batches: int) -> int | None:
        batch_sampler = self.loader.batch_sampler
        if self.streams or type(batch_sampler) not in (BatchSampler, type(None)):
            return None
        size, sampler = getattr(batch_sampler, "batch_size", 1), getattr(batch_sampler, "sampler", self.loader.sampler)
        total = length_of(sampler)
        return None if total is None else min(batches * size, total)

    def _delivered(self, parcel: Any) -> Any:
        """Return the batch of a parcel that is being delivered, whose indices were noted."""
        return self.copy.unwrap(self.noted.delivered(parcel))  # type: ignore[union-attr]

    # ---- before and after --------------------------------------------------------------------------------------------

    def _owned(self) -> list[Any]:
        """Return the generators that live in this process: loader's, samplers', without workers the dataset's."""
        loader = self.loader
        mine = [] if loader.num_workers else [loader.dataset, loader.collate_fn]
        return find_owned([loader.generator, *samplers_of(loader), *mine])

    def _capture_before(self) -> State:
        return {
            "before": plain(host_state()),
            "owned_before": owned_states(self._owned()),
            "samplers_before": self._places(),
            "places_before": self.copy.worker_states() if self.streams and self.copy.alive else {},
        }

    def _restore_before(self, state: State) -> None:
        set_host_state(unplain(state["before"]))
        set_owned_states(self._owned(), state["owned_before"])
        self._load_places(state["samplers_before"])

    def _places(self) -> list[Any]:
        return [sampler.state_dict() for sampler in self._samplers]

    def _load_places(self, places: list[Any]) -> None:
        for sampler, place in zip(self._samplers, places, strict=False):
            sampler.load_state_dict(place)

    def _resumed_iterator(self, state: State, batches: int) -> Iterator[Any]:
        if self.streams and not is_stateful(self.loader.dataset):
            return self._read_again(state, batches)
        if self.streams and not self.loader.num_workers:
            self.loader.dataset.load_state_dict(state["place"])  # type: ignore[attr-defined]
            self._bare = True
            return iter(()) if state["used_up"] else self.copy.bare()
        return self._continue(state, batches)

    def _continue(self, state: State, batches: int) -> Iterator[Any]:
        """Return an iterator that starts at batch ``batches`` without reading the earlier ones."""
        count = self.loader.num_workers
        same = count == state["num_workers"]
        dummies = 1 if count and not state["starts_workers"] else 0
        notes = read_notes(state["notes"])
        self.indices.replay(0 if self.streams else batches, state["drawn"], notes, dummies=dummies, born=state["born"])
        self._bare = False
        workers = read_worker_states(state["workers"]) if same else {}
        first = state["next_worker"] if count and same else 0
        iterator = self.copy.open(states=workers, first=first, base=self._base(state))
        if not count:
            self.indices.skip()
        return iterator

    def _revive(self, state: State) -> Iterator[Any]:
        """Return the iterator of an epoch for which persistent workers of an earlier process are started again."""
        self._rest = None
        self.indices.replay(0, 0, {}, dummies=1, born=state["born"])
        return self.copy.open(
            states=read_worker_states(state["workers"]), base=self._base({**state, "starts_workers": 0})
        )

    def _base(self, state: State) -> torch.Generator | None:
        """Return where persistent workers that were started in an earlier epoch get their base seed from."""
        if state["starts_workers"] or state["born"] is None:
            return None
        base = torch.Generator()
        base.set_state(state["born"])
        return base

    def _read_again(self, state: State, batches: int) -> Iterator[Any]:
        if not getattr(self.loader.dataset, "rereads", False):
            warn_of_rereading(batches, "the IterableDataset")
        if self._reread is not None:
            self._reread.replay(batches, state["drawn"], read_notes(state["notes"]))
            iterator = iter(self._reread)
            self._reread.skip()
            return iterator
        self.indices.begin(born=True)
        iterator = self.copy.open(states=read_worker_states(state["places_before"]), base=self._base(state))
        for _ in range(batches):
            self.copy.unwrap(next(iterator))
        return iterator

    def _note_first(self) -> None:
        """Note the generators' states before the first index is drawn; other code may have drawn since ``iter``."""
        if not self.indices.notes:
            self.indices.notes[0] = host_state()

    # ---- checks against the checkpoint -------------------------------------------------------------------------------

    def _shape(self) -> list[int | None]:
        loader = self.loader
        size = None if self.streams else len(loader.dataset)  # type: ignore[arg-type]
        return [size, loader.batch_size]

    def _check_unchanged(self, state: State) -> None:
        saved, mine = list(state["shape"]), self._shape()
        for what, old, new in zip(("samples in the dataset", "samples per batch"), saved, mine, strict=True):
            if old != new:
                raise DataError(
                    f"The checkpoint was written in the middle of an epoch with {old} {what}; now there are {new}. "
                    "Resume with the same data and batch size, or from a checkpoint at an epoch's end.",
                    code="LT444",
                )


def warn_of_rereading(batches: int, what: str) -> None:
    """Warn that a resume reads ``batches`` batches again."""
    if batches:
        warn(
            f"To continue in the middle of the epoch, {what} is read again from its start and {batches} batches are "
            "dropped. A dataset with state_dict() and load_state_dict() continues right where it was.",
            code="LT445",
        )


def advice(loader: DataLoader[Any]) -> str:
    """Return which setting of ``loader`` would shorten the wait for data, in one sentence."""
    if not loader.num_workers:
        return "DataLoader(num_workers=2) or more reads in other processes while the model computes."
    if not loader.persistent_workers:
        return (
            f"DataLoader(num_workers={loader.num_workers}) with more workers, or persistent_workers=True to start "
            "them once instead of in each epoch."
        )
    return (
        f"DataLoader(num_workers={loader.num_workers}, prefetch_factor={loader.prefetch_factor}): raise either of them."
    )
