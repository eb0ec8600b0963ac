"""The user's sampler, watched: the number of index batches it gave, and the state to draw them again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from lt_core.errors import DataError, warn
from lt_data.resume.generators import HostState, host_state, plain, probe, set_host_state, unplain

_DRAW_AT_FIRST = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)
_MOST_NOTES = 2000
"""Notes of one epoch, 10 KB each, before a sampler that draws at each batch is given up."""


def draws_once(sampler: Any) -> bool:
    """Return whether ``sampler`` draws from the process's generators at its first index only, as torch's own do."""
    if type(sampler) is BatchSampler:
        return draws_once(sampler.sampler)
    kind = type(sampler)
    return kind in (*_DRAW_AT_FIRST, list, tuple, range) or kind.__name__ == "_InfiniteConstantSampler"


def samplers_of(loader: Any) -> list[Any]:
    """Return the sampler and batch sampler of a DataLoader, and the samplers that they wrap; never its dataset."""
    found: list[Any] = []
    queue = [loader.batch_sampler, loader.sampler]
    for sampler in queue:
        if sampler is not None and all(sampler is not other for other in found):
            found.append(sampler)
            queue += [getattr(sampler, name, None) for name in ("sampler", "batch_sampler")]
    return found


_GAP = 16
"""Items that are looked at one by one; where nothing was drawn then, each 16th is."""


class Watched:
    """Stands in for a DataLoader's index sampler and hands on its indices, in the same order and at the same moments.

    For a sampler that draws random numbers later than at its first index, it notes the generators' states before each
    draw that something else drew before, so that :meth:`replay` repeats the indices exactly. Torch's own samplers need
    one note at most.

    Any other iterable can be watched in the same way, where its items are to be read and dropped by a resume.

    Attributes:
        drawn: index batches given so far.
        stopped: set it to end the epoch here; batches in flight can then be drained without drawing further indices.
        notes: the states of the generators before a draw, by the number of the index batch.
        turns: where :meth:`go_on` asked for an iterator again, by the number of the index batch that came next, with
            the generators' states before it where that drew; None where it did not.
        ended: whether the iterator came to its end.
        born: state of ``generator`` just before the base seed of the workers is drawn.
    """

    def __init__(
        self, sampler: Any, *, generator: torch.Generator | None = None, watch: bool = True, trust_quiet: bool = False
    ) -> None:
        """Stand in for ``sampler``.

        Args:
            sampler: yields indices, or batches of them.
            generator: source of the workers' base seed; None for torch's own.
            watch: False for a sampler that is known to draw at its first index at most.
            trust_quiet: look only now and then once it has drawn nothing for a while, even where others draw: a look
                costs 20 µs. For loaders of other people's, whose batches take less than that.
        """
        self.sampler = sampler
        self._trust_quiet = trust_quiet
        self.stopped = False
        self.born: torch.Tensor | None = None
        self._generator = generator or torch.default_generator
        self._watch = watch
        self.notes: dict[int, HostState] = {}
        self.turns: dict[int, HostState | None] = {}
        self._live: Iterator[Any] | None = None
        self._new_epoch()

    def __len__(self) -> int:
        """Return the sampler's length."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator of the sampler; the last one made is the one that counts."""
        if self._dummies:  # a DataLoader made anew asks twice where a persistent one asks once
            self._dummies -= 1
            return iter(())
        self._live = iter(self.sampler)
        if self.born is None:
            self.born = self._generator.get_state()
        return self._hand_on(self._live)

    def go_on(self) -> Iterator[Any]:
        """Ask a sampler that lasts longer than an epoch for its iterator again, as a loop does; return the rest."""
        state = host_state()
        self._live = iter(self.sampler)
        self.turns[self.drawn] = state if host_state() != state else None
        return self._hand_on(self._live)

    def rest(self) -> Iterator[Any]:
        """Return an iterator over the rest after :meth:`skip`."""
        assert self._live is not None
        return self._hand_on(self._live)

    def begin(self, *, born: bool) -> None:
        """Prepare for a new epoch: forget the notes of the last one.

        Args:
            born: whether workers are started for it, so that a base seed is drawn.
        """
        self._new_epoch()
        if born:
            self.born = None

    def replay(
        self,
        skip: int,
        until: int,
        notes: dict[int, HostState],
        *,
        turns: Mapping[int, HostState | None] = MappingProxyType({}),
        dummies: int = 0,
        born: torch.Tensor | None = None,
    ) -> None:
        """Have the next iteration drop the first ``skip`` index batches.

        Args:
            skip: index batches whose samples are done.
            until: index batches that were drawn when the checkpoint was written; notes hold for those.
            notes: :attr:`notes` at that time.
            turns: :attr:`turns` at that time.
            dummies: how many of the next calls of ``iter`` the uninterrupted run did not make.
            born: :attr:`born` at that time.
        """
        self._new_epoch()
        self.notes, self.turns, self.born = dict(notes), dict(turns), born
        self._skip, self._until, self._dummies = skip, until, dummies

    def skip(self) -> None:
        """Drop the batches of :meth:`replay` now and not at the first ``next``, and draw the ones beyond."""
        assert self._live is not None
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            self._turn_again()
            if self._draw(self._live) is _END:
                raise DataError(
                    f"The checkpoint stands {skip} batches into the epoch, but {type(self.sampler).__name__} ends "
                    f"after {self.drawn}. Resume with the same data and batch size.",
                    code="LT443",
                )
        self._turn_again()
        while self.drawn < self._until and (index := self._draw(self._live)) is not _END:
            self._ahead.append(index)

    def _turn_again(self) -> None:
        """Ask for an iterator again where :meth:`go_on` did."""
        if self.drawn in self.turns:
            state = self.turns[self.drawn]
            if state is not None:
                set_host_state(state)
            self._live = iter(self.sampler)

    def _new_epoch(self) -> None:
        self.notes, self.turns, self._live = {}, {}, None
        self.drawn, self.stopped, self.ended = 0, False, False
        self._ahead: deque[Any] = deque()
        self._skip = self._until = self._dummies = 0
        self._last: tuple[Any, ...] | None = None
        self._quiet = self._heard = self._unsure = False

    def _hand_on(self, indices: Iterator[Any]) -> Iterator[Any]:
        if self._skip:
            self.skip()
        while self._ahead:
            yield self._ahead.popleft()
        while not self.stopped:
            index = self._draw(indices)
            if index is _END:
                self.ended = True
                return
            yield index

    def _draw(self, indices: Iterator[Any]) -> Any:
        number = self.drawn
        # While nobody draws there is nothing to note. What the sampler alone draws between two looks follows from the
        # last state: only where others begin to draw between the same two can a draw be missed.
        sparse = number > self._until + _GAP and (self._quiet or (self._trust_quiet and not self._draws_late()))
        if number < self._until:
            if number in self.notes:
                set_host_state(self.notes[number])
            index = next(indices, _END)
        elif self._watch and not (sparse and number % _GAP):
            index = self._draw_watched(indices, number, sparse)
        else:
            index = next(indices, _END)
        self.drawn += index is not _END
        return checked(index, self.sampler)

    def _draw_watched(self, indices: Iterator[Any], number: int, sparse: bool) -> Any:
        before = probe()
        self._unsure &= before != self._last
        if self._quiet and before == self._last:
            # What this item draws follows from the last state, as nobody else has drawn since. That it drew shows in
            # the next look.
            return next(indices, _END)
        self._heard |= self._quiet
        state = host_state() if before != self._last else None
        index = next(indices, _END)
        if index is _END:
            return index
        self._last = probe()
        if state is not None and self._last != before:
            self._note(number, state)
            self._unsure |= sparse  # if others draw before the next item too
        self._quiet = self._last == before and not self._heard
        return index

    def _draws_late(self) -> bool:
        """Return whether something was drawn after the first item."""
        return len(self.notes) > (0 in self.notes)

    def _note(self, number: int, state: HostState) -> None:
        if self._unsure:
            self._unsure = False
            warn(
                f"{type(self.sampler).__name__} used random numbers for a batch, but none for the {_GAP} or more "
                "before it, so it was checked only now and then. A resume in this epoch may read other samples. Use "
                "them when the epoch starts, or give it a generator of its own (an attribute torch.Generator()).",
                code="LT448",
            )
        self.notes[number] = state
        if len(self.notes) > _MOST_NOTES:
            self._watch = False
            own = self.sampler.sampler if type(self.sampler) is BatchSampler else self.sampler
            warn(
                f"{type(own).__name__} takes random numbers from the process's generators for each batch. After "
                f"{_MOST_NOTES} batches this is no longer noted, so a resume in this epoch may read other samples. "
                "Give it a generator of its own (an attribute torch.Generator()), or take them when the epoch starts.",
                code="LT441",
            )


class Noted:
    """Stands in for an index sampler, and keeps its indices until their batch is delivered."""

    def __init__(self, sampler: Any) -> None:
        """Stand in for ``sampler``."""
        self.sampler = sampler
        self._waiting: deque[Any] = deque()
        self._last: Any = None

    def __len__(self) -> int:
        """Return the sampler's length."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator of the sampler; the last one made is the one that counts."""
        return self.note(iter(self.sampler))

    def note(self, indices: Iterator[Any]) -> Iterator[Any]:
        """Yield ``indices``, and keep them."""
        self._waiting.clear()
        for index in indices:
            self._waiting.append(index)
            yield index

    def delivered(self, batch: Any) -> Any:
        """Return ``batch``, the next one made of the indices kept."""
        self._last = self._waiting.popleft()
        return batch

    @property
    def batch_size(self) -> int | None:
        """How many indices those were; None for a single one, which may stand for a whole batch."""
        return len(self._last) if hasattr(self._last, "__len__") else None

    @property
    def positions(self) -> list[int] | None:
        """The indices of the batch that was delivered last."""
        return as_positions(self._last)


def as_positions(indices: Any) -> list[int] | None:
    """Return indices of samples (a tensor, a list, a range or a single one) as a list; None where they are no ints."""
    found = indices.tolist() if isinstance(indices, torch.Tensor) else indices
    found = list(found) if isinstance(found, (list, tuple, range)) else [found]
    return found if all(isinstance(index, int) for index in found) else None


_END = object()
"""Stands for an index where the sampler is spent."""


def checked(index: Any, sampler: Any) -> Any:
    """Return a sampler's index, or batch of indices.

    Raises:
        DataError: for an empty batch.
    """
    if index.__class__ is list and not index:
        raise DataError(
            f"{type(sampler).__name__} gave an empty batch of indices; expected at least one index in each batch.",
            code="LT442",
        )
    return index


def plain_notes(notes: Mapping[int, HostState | None]) -> dict[str, Any]:
    """Return :attr:`Watched.notes` or :attr:`Watched.turns` as a checkpoint holds them."""
    return {str(number): None if state is None else plain(state) for number, state in notes.items()}


def read_notes(notes: dict[str, Any]) -> dict[int, Any]:
    """Inverse of :func:`plain_notes`."""
    return {int(number): None if state is None else unplain(state) for number, state in notes.items()}
