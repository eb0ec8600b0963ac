"""Loader workers whose random states travel with each batch, and are put back after a resume."""

from __future__ import annotations

import os
import signal
import sys
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakSet

from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data._utils import fetch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from lt_core.launcher import end_with_parent
from lt_data.resume.generators import (
    HostState,
    find_owned,
    host_state,
    owned_states,
    plain,
    set_host_state,
    set_owned_states,
    unplain,
)
from lt_data.resume.worker_signals import leave_signals_to_run, respect_handler, sigterm_blocked


class WorkerState(NamedTuple):
    """State of a worker after a batch.

    Attributes:
        host: the three generators.
        owned: the generators that dataset and collate function own.
        place: the dataset's ``state_dict``.
        used_up: whether its data is used up.
    """

    host: HostState
    owned: list[str]
    place: Any
    used_up: bool

    @classmethod
    def of(cls, state: dict[str, Any]) -> WorkerState:
        """Inverse of :meth:`plain`."""
        return cls(**{**state, "host": unplain(state["host"])})

    def plain(self) -> dict[str, Any]:
        """Return the state as a checkpoint holds it."""
        return {**self._asdict(), "host": plain(self.host)}


Parcel = list[Any]
"""A batch on its way from a worker: batch, worker's number, its state after the batch (None: as after its last)."""


def keeps_state(thing: Any) -> bool:
    """Return whether a dataset, a sampler or a loader has a ``state_dict`` (torchdata's protocol)."""
    return all(callable(getattr(thing, name, None)) for name in ("state_dict", "load_state_dict"))


def is_stateful(dataset: Any) -> bool:
    """Return whether an iterable dataset says where it stands, with all that it holds."""
    return isinstance(dataset, IterableDataset) and keeps_state(dataset) and not has_shuffle_buffer(dataset)


def has_shuffle_buffer(dataset: Any) -> bool:
    """Return whether a stream is, or reads, one of ``datasets`` after ``shuffle(buffer_size=...)``.

    Its ``state_dict`` lacks the buffer, and in a worker it may be one that cannot be loaded (5.2).
    """
    queue, seen = [dataset] if "datasets" in sys.modules else [], set[int]()
    for thing in queue:
        if type(thing).__name__ == "BufferShuffledExamplesIterable":
            return True
        seen.add(id(thing))
        held = [part for value in vars(thing).values() for part in (value if isinstance(value, list) else [value])]
        queue.extend(part for part in held if _is_stream(part) and id(part) not in seen)
    return False


def _is_stream(thing: Any) -> bool:
    return isinstance(thing, IterableDataset) or type(thing).__module__ == "datasets.iterable_dataset"


@dataclass
class Traveling:
    """A collate function that sends the worker's state along with each batch where it changed."""

    collate: Callable[[Any], Any]
    full_batch: int | None
    """A batch with fewer samples is the last one of an iterable dataset, which may also say so by ``used_up``."""
    _stateful: bool | None = None
    _last: WorkerState | None = None

    def __call__(self, samples: Any) -> Parcel:
        """Return the batch of ``samples`` as a parcel."""
        batch = self.collate(samples)
        worker = get_worker_info()
        assert worker is not None
        dataset = worker.dataset
        used_up = getattr(dataset, "used_up", self.full_batch is not None and len(samples) < self.full_batch)
        if self._stateful is None:
            self._stateful = is_stateful(dataset)
        place = dataset.state_dict() if self._stateful else None  # type: ignore[attr-defined]
        last = self._last
        self._last = WorkerState(host_state(), owned_states(find_owned((dataset, self.collate))), place, bool(used_up))
        return [batch, worker.id, None if place is None and self._last == last else self._last]


@dataclass
class Begin:
    """The ``worker_init_fn`` of every worker: it ends with the run, and not before; its state is put back after a
    resume, when the user's own ``worker_init_fn`` has run.
    """

    init: Callable[[int], None] | None
    collate: Callable[[Any], Any]
    states: dict[int, WorkerState]
    """By worker."""

    def __call__(self, worker_id: int) -> None:
        """Initialise worker ``worker_id``."""
        end_with_parent()  # torch's own workers look for theirs every five seconds
        leave_signals_to_run()
        if self.init is not None:
            self.init(worker_id)
            respect_handler()
        if worker_id not in self.states:
            return
        host, owned, place, used_up = self.states[worker_id]
        worker = get_worker_info()
        assert worker is not None
        dataset = worker.dataset
        if place is not None:
            dataset.load_state_dict(place)  # type: ignore[attr-defined]
        set_owned_states(find_owned((dataset, self.collate)), owned)
        set_host_state(host)
        if used_up:
            fetch._IterableDatasetFetcher = _UsedUp  # type: ignore[misc]


class _UsedUp(fetch._IterableDatasetFetcher):
    """Stands in, once and in this worker only, for the fetcher of a worker whose data was used up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fetch._IterableDatasetFetcher = _Fetcher  # type: ignore[misc]
        super().__init__(*args, **kwargs)
        self.ended = True


_Fetcher = fetch._IterableDatasetFetcher


_PATIENCE = 5.0
"""Seconds that all workers together have to finish; torch waits as long for each."""


class Workers(_MultiProcessingDataLoaderIter):
    """A DataLoader's iterator whose first batch goes to worker ``first``, as in the middle of an epoch.

    That a worker has died comes out where a batch is asked for. Torch's handler of SIGCHLD would raise wherever this
    process stands: in half a step, or in a queue whose lock then stays locked, so that the process never ends.
    """

    _death: RuntimeError | None = None

    def __init__(self, loader: DataLoader[Any], first: int) -> None:
        """Start the workers and send them the first indices."""
        self._first = first
        super().__init__(loader)
        _living.add(self)
        if sys.platform != "win32" and current_thread() is main_thread():
            before = signal.getsignal(signal.SIGCHLD)
            if callable(before) and getattr(before, "func", None) is not _note_death:
                signal.signal(signal.SIGCHLD, partial(_note_death, before))

    def _try_get_data(self, timeout: float = 1.0) -> Any:
        # where nothing comes for so many seconds, torch looks whether all workers live
        try:
            return super()._try_get_data(timeout)  # type: ignore[no-untyped-call]
        except RuntimeError:
            if self._death is None:
                raise
            raise self._death from None

    def _try_put_index(self) -> None:
        # torch deals batches out in this cycle, and always begins with worker 0
        for _ in range(self._first):
            next(self._worker_queue_idx_cycle)
        self._first = 0
        super()._try_put_index()

    def _shutdown_workers(self) -> None:
        workers = getattr(self, "_workers", ())
        if not workers or workers[0]._parent_pid != os.getpid():
            return  # a fork, which shares the event that ends them
        over = Event()
        try:
            # at the interpreter's exit no thread can begin; and torch's handler of SIGCHLD may raise here for a worker
            # that was killed: in the middle of Thread.start() that makes the new thread print a KeyError of its own
            with suppress(RuntimeError):
                start_new_thread(lambda: over.wait(_PATIENCE) or [worker.terminate() for worker in workers], ())
            super()._shutdown_workers()
        finally:
            over.set()
            for worker in workers:
                worker.kill()  # one that heeded nothing would keep this process from its end


_living: WeakSet[Workers] = WeakSet()


def _note_death(before: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> None:
    """Call torch's handler of SIGCHLD, and keep what it raises of a worker for those who read its batches."""
    try:
        before(number, frame)
    except RuntimeError as death:
        for workers in [*_living]:
            if any(f"(pid {worker.pid})" in str(death) for worker in workers._workers):
                workers._death = death
                return
        raise


def started(loader: DataLoader[Any], first: int = 0) -> Workers:
    """Return an iterator of ``loader``, whose workers it starts; the first batch goes to worker ``first``."""
    with sigterm_blocked(loader):
        return Workers(loader, first)
