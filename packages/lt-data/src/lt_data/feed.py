"""The feed that a run reads: batches of one loader, in order, on the device, continued exactly after a resume."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from traceback import walk_tb
from typing import Any

from lt_core.accelerator import Copies
from lt_core.data import Feed
from lt_core.errors import DataError, warn
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import Shard
from lt_data.fingerprint import warn_if_same
from lt_data.lookahead import look_ahead
from lt_data.reader import Reader, State

_MOMENT = 3.0
"""Seconds in which a worker whose connection broke is gone."""


class LoaderFeed(Feed):
    """Reads a :class:`~lt_data.reader.Reader`, epoch by epoch.

    Its state: epoch, batches done, the shard it was read for, the kind of reader, the reader's state
    within the epoch (``inside``), and its state across epochs (``rest``).
    """

    _miscounted = False

    def __init__(
        self,
        loader: Any,
        reader: Reader,
        *,
        substitute: Callable[[str], Reader | None],
        gather: Callable[[Any], list[Any]] | None = None,
        copies: Copies | None = None,
        **more: Any,
    ) -> None:
        """Make a feed.

        Args:
            loader: the user's.
            reader: how it is read.
            substitute: returns a reader for the rest of an epoch that was begun by a reader of another kind.
            gather: returns every rank's value; for a loader that the ranks shard by themselves, to see whether they do.
            copies: does the work of ``transfer`` beside the step.
            more: stage, shard, seed and transfer; see :func:`lt_core.data.make_feed`.
        """
        super().__init__(loader, **more)
        self.reader = reader
        self.uneven = reader.uneven
        self.num_batches = reader.length
        self._substitute = substitute
        self._gather = gather
        self._copies = copies
        self._opened = self._finished = False
        self._failed: tuple[State, State] | None = None
        self._batches_before = 0

    @property
    def samples(self) -> int | None:
        state = self._resume
        if state is not None and state.get("inside") is not None:  # not read on yet
            return self.reader.samples_done(state["inside"], int(state["batches"]))
        return self.reader.samples(self._done)

    @property
    def batch_size(self) -> int | None:
        return self.reader.batch_size(self._done)

    @property
    def batches_done(self) -> int:
        return self._done if self._resume is None else self._batches_before

    @property
    def indices(self) -> list[int] | None:  # type: ignore[override]
        """Positions in the dataset of the samples of the batch just yielded, in prediction; None where unknown."""
        return self.reader.positions

    @property
    def dataloader_idx(self) -> int:
        """Number of the loader that the batch just yielded is from, where a CombinedLoader's take turns."""
        return self.reader.dataloader_idx

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.reader.set_epoch(epoch)
        self.num_batches = self.reader.length  # it may have grown or shrunk since the last epoch

    def begin_round(self, number: int) -> None:
        """Shuffle as in epoch ``number``, without a call of the user's samplers: an epoch within an epoch."""
        self._epoch = number

    def state_dict(self) -> State:
        if self._failed is not None:
            return self._failed[0]
        inside = self.reader.state(self._done) if self._opened and self.stage == "fit" else None
        return self._place(self._done, inside)

    def state_before(self) -> State:
        if self._failed is not None:
            return self._failed[1]
        before = self.reader.state_before(self._done) if self._opened and self._done and self.stage == "fit" else None
        return self.state_dict() if before is None else self._place(self._done - 1, before)

    def _place(self, batches: int, inside: State | None) -> State:
        return {
            "epoch": self._epoch,
            "batches": batches if self._opened else 0,
            "shard": [self.shard.index, self.shard.count],
            "kind": self.reader.kind,
            "inside": inside,
            "rest": {} if self._opened else self.reader.rest_state(),
        }

    def load_state_dict(self, state: State) -> None:
        """Make the next iteration continue at the place that :meth:`state_dict` returned, if it is of the same epoch.

        The state of core's own feed (epoch, batches and generators only) is taken too: its batches are read and
        dropped.

        Raises:
            DataError: for a place that this loader cannot continue at.
        """
        if "kind" in state:
            self._go_on_as(state)
        self._resume, self._batches_before = state, int(state["batches"])
        if state.get("inside") is not None:
            self._batches_before = self.reader.batches_done(state["inside"], int(state["batches"]))

    def advice(self) -> str:
        return self.reader.advice()

    def in_order(self, by_rank: Any) -> list[Any]:
        longest = max(map(len, by_rank), default=0)
        return [outputs[turn] for turn in range(longest) for outputs in by_rank if turn < len(outputs)]

    def close(self) -> None:
        self._leave()
        state = self._resume
        if state is not None and "kind" in state and not self._is_inside(state):  # others may read from here
            self._resume = None
        self.reader.close()

    # ---- an epoch ----------------------------------------------------------------------------------------------------

    def _open(self) -> Iterator[Any]:
        self._leave()
        self._failed = None
        self._turn += 1
        self.weight = 1.0
        state, self._resume = self._resume, None
        if state is not None and "kind" not in state:
            iterator = self._read_again(state)
        elif state is None or not self._is_inside(state):
            self._done = 0
            iterator = self.reader.begin(self._epoch)
        else:
            self._done = self._batches_before
            iterator = self.reader.resume(self._epoch, state["inside"], state["batches"])
        self._opened, self._finished = True, False
        self.uneven = self.reader.uneven
        return iterator

    def _is_inside(self, state: State) -> bool:
        """Return whether ``state`` belongs to the epoch that begins; else take the part that outlives an epoch."""
        if state["inside"] is not None and state["epoch"] == self._epoch:
            return True
        kept = state["rest"] if state["inside"] is None else state["inside"]
        if kept and self.reader.accepts(state["kind"], Shard(*state["shard"])):
            self.reader.rest(kept)
        return False

    def _read_again(self, state: State) -> Iterator[Any]:
        """Continue at the place of core's own feed, as it does: by reading the done batches and dropping them."""
        inside = state["before"] is not None and state["epoch"] == self._epoch
        now = capture_generators()
        if inside:
            restore_generators(state["before"])
        iterator, self._done = self.reader.begin(self._epoch), 0
        if not inside:
            return iterator
        if self.reader.begins is not None:
            self.reader.begins()
        for item in islice(iterator, state["batches"]):
            self._done += 1
            if self.reader.unwrap is not None:
                self.reader.unwrap(item)
        if self._done:  # else the sampler has yet to draw its order, and does so as it did
            restore_generators(now)
        return iterator

    def _deliver(self, iterator: Iterator[Any]) -> Iterator[Any]:
        turn, reader, transfer, failed = self._turn, self.reader, self.transfer, True
        unwrap, start, copies = reader.unwrap, self._done, self._copies
        if reader.begins is not None:
            reader.begins()
        items = self._timed(iterator) if self.timed else iterator
        if self._gather is not None:
            items = self._compare_first(items, self._gather)
        if copies is not None and transfer is not None:
            items = look_ahead(items, copies, transfer, ahead=reader.ahead, parcels=reader.parcels, dropped=unwrap)
            transfer = None
        try:
            if unwrap is not None:
                for item in items:
                    batch = unwrap(item)
                    self._done += 1
                    self.weight = reader.weight
                    yield batch if transfer is None else transfer(batch)
            else:
                for batch in items:
                    self._done += 1
                    yield batch if transfer is None else transfer(batch)
            self._finished = True
            self._check_count(start)
            failed = False
        except GeneratorExit:
            failed = False
            # A plain loop asks once more, and the sampler may draw then. Not after an error: an iterator that its
            # traceback held goes at any time, in the middle of whatever comes next.
            if turn == self._turn and self._opened and self._done == self.num_batches and not self.stops_at_length:
                self._finished = next(iterator, None) is None
            raise
        except IndexError as error:
            if "index out of range in self" in str(error):  # batch indexing's; a dataset's own comes out as it is
                raise _out_of_range(self.loader) from error
            raise
        except RuntimeError as error:
            if str(error).startswith("DataLoader worker (pid"):
                raise _worker_died(error) from error
            raise
        except (ConnectionError, EOFError, FileNotFoundError) as error:
            death = _death_behind(error) if getattr(self.loader, "num_workers", 0) else None
            if death is not None:
                raise _worker_died(death) from error
            raise
        finally:
            if turn == self._turn:  # an iterator that was left behind ends after its successor was made
                if failed:
                    self._keep_place()
                self._leave()

    def _keep_place(self) -> None:
        """Note where an error came, for a checkpoint that is written because of it."""
        if self.stage == "fit":
            with contextlib.suppress(Exception):  # the error is reported, not its consequences here
                self._failed = (self.state_dict(), self.state_before())

    def _leave(self) -> None:
        if self._opened:
            self._opened = False
            self.reader.leave(self._finished)

    # ---- a resume ----------------------------------------------------------------------------------------------------

    def _go_on_as(self, state: State) -> None:
        """Keep the ranks' order, in later epochs too, where one process continues the run of several."""
        kind, shard = state["kind"], Shard(*state["shard"])
        if self.reader.accepts(kind, shard):
            return
        found = self._substitute(kind)
        if found is not None and found.accepts(kind, shard):
            self.reader.close()
            found.set_epoch(self._epoch)
            self.reader = found
            self.num_batches, self.uneven = found.length, found.uneven
            return
        if state["inside"] is None:
            return
        raise DataError(
            f"The checkpoint was written in the middle of an epoch by rank {shard.index} of {shard.count} that read a "
            f"{kind}; rank {self.shard.index} of {self.shard.count}, which reads a {self.reader.kind} "
            f"({type(self.loader).__name__}), cannot continue there. Resume with the same loader, or from a "
            "checkpoint at an epoch's end.",
            code="LT446",
        )

    def _compare_first(self, items: Iterator[Any], gather: Callable[[Any], list[Any]]) -> Iterator[Any]:
        """Compare the first batch over the ranks, once; return all items."""
        self._gather = None
        first = list(islice(items, 1))
        for item in first:
            warn_if_same(gather, self.reader.content(item), type(self.loader).__name__)
        return chain(first, items)

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _check_count(self, start: int) -> None:
        """Say when an epoch had another number of batches than the loader's length, or none at all."""
        expected, got = self.num_batches, self._done
        if got == start == 0 and self.stage == "fit":
            raise DataError(
                f"{type(self.loader).__name__} gave no batch in epoch {self._epoch}; expected at least one. "
                "Is the data empty, or a generator spent? Pass a list, a DataLoader, or another iterable that starts "
                "anew.",
                code="LT410",
            )
        if got != expected is not None and not self._miscounted:
            self._miscounted = True  # once: each epoch may give another number
            warn(
                f"{type(self.loader).__name__} says that it has {expected} batches and gave {got}. Correct its "
                "__len__, or remove it: progress, limits and val_check_interval rely on it.",
                code="LT411",
            )


def _worker_died(error: RuntimeError) -> DataError:
    return DataError(
        f"A loader worker died ({error}). What it said of it stands above. If nothing, often the machine or the "
        "container has no memory left (each worker holds a copy of the dataset; shared memory lies in /dev/shm), or "
        "native code crashed. Where workers are spawned (Windows, macOS) the script needs if __name__ == '__main__'. "
        "To see it in this process, take DataLoader(num_workers=0).",
        code="LT412",
    )


def _death_behind(error: Exception) -> RuntimeError | None:
    """Return torch's error of a worker that died, which may come a moment after its broken connection; else None."""
    if "in DataLoader worker process" in str(error):  # the dataset's own, passed on by a worker that lives
        return None
    try:
        time.sleep(_MOMENT)
    except RuntimeError as death:  # from torch's handler of SIGCHLD
        return death
    # torch's iterator holds the workers, and only the traceback still holds the iterator
    readers = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    workers = {worker for reader in readers for worker in getattr(reader, "_workers", ())}
    gone = [f"{worker.pid}) exited with status {worker.exitcode}" for worker in workers if not worker.is_alive()]
    return RuntimeError(f"DataLoader worker (pid {gone[0]}.") if gone else None


def _out_of_range(loader: Any) -> DataError:
    return DataError(
        f"The sampler of {type(loader).__name__} gave an index that its dataset of {len(loader.dataset)} samples does "
        "not have. Does the sampler belong to this dataset?",
        code="LT415",
    )
