"""The training data of a run: its feed, the rest of an epoch's batches, and the place of a resume."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lt_core.data import Feed
from lt_core.seed import restore_generators
from lt_loops.arguments.limits import limited
from lt_loops.run.feeds import Feeds, batches_per_step, samples_of_batch
from lt_loops.run.job import Context, Owner
from lt_loops.state.origin import Saved, StateDict


class TrainingData(Owner):
    """Keeps the feed of the training loaders and the iterator over it, and measures how long it is read.

    Attributes:
        feed: None before anybody wants its length, and outside of ``fit``.
        batches: the iterator over the rest of the epoch; None where none is in use.
        outdated: the loaders must be asked for again before the next epoch; until then the present feed is read.
        samples_elsewhere: samples of the present epoch consumed in processes that have ended.
    """

    def __init__(self, context: Context, feeds: Feeds) -> None:
        super().__init__(context)
        self._feeds = feeds
        self.feed: Feed | None = None
        self.batches: Iterator[Any] | None = None
        self._place: StateDict | None = None  # where a feed that is not read yet goes on
        self._generators: StateDict | None = None  # to be put back right before the iterator is made
        self._clock: float | None = None  # when the present stretch of training began
        self._begun = 0.0  # when training would have begun in this process alone
        self.samples_elsewhere = 0
        self.outdated = False

    def __getstate__(self) -> StateDict:
        """Leave out the feed, which reads in this process; the place in it stays."""
        return {**vars(self), "feed": None, "batches": None}

    # ---- the feed ----------------------------------------------------------------------------------------------------

    def ensure(self) -> Feed:
        """Return the feed, made when it is first wanted; it goes on from the place where an earlier run stopped."""
        if self.feed is None:
            self.feed = self._feeds.train(by_seed=self._limits.global_batch_size is not None)
            if self._place is not None:
                self.feed.load_state_dict(self._place)
            self.count_batches()
        if (samples := self._limits.global_batch_size) is not None:
            loaders = self._job.loaders.as_first_asked("train", self._position)
            self._limits.accumulate_grad_batches = batches_per_step(samples, loaders, self._strategy)
        return self.feed

    def drop_outdated(self) -> None:
        """Let go of the feed where the loaders must be asked for again before the epoch that begins."""
        if self.feed is None or self._position.batch:
            return
        if self.outdated or self._feeds.are_outdated("train"):
            self.feed.close()
            self.feed = self._place = self.batches = None
            self._job.loaders.forget("train")
            self.outdated = False

    def count_batches(self) -> None:
        """Work out how many training batches this epoch has; a loader may have grown since the last one."""
        assert self.feed is not None
        overfit = self._settings.overfit_batches
        self._agenda.num_batches = limited(
            self.feed.num_batches,
            overfit or self._limits.limit_train_batches,
            "overfit_batches" if overfit else "limit_train_batches",
        )

    @property
    def length(self) -> int | None:
        """Batches of an epoch without limits, None where unknown."""
        return None if self.feed is None else self.feed.num_batches

    @property
    def batch_size(self) -> int | None:
        """Samples of a batch of this rank, None where unknown."""
        return None if self.feed is None else samples_of_batch(self.feed.loader)

    @property
    def samples(self) -> int:
        """Samples of this epoch that all ranks consumed; 0 where the size of batches is unknown."""
        return (None if self.feed is None else self.feed.samples) or self.samples_elsewhere

    @property
    def global_samples(self) -> int:
        """Training samples that all ranks consumed in all epochs; 0 where the size of batches is unknown."""
        return self._position.samples + bool(self._position.batch) * self.samples

    # ---- reading it --------------------------------------------------------------------------------------------------

    def open_first(self) -> None:
        """Make the iterator of a fit's first epoch before the hooks that begin training.

        Making it may draw random numbers, and so may those hooks; lt makes it after them, as in a loop written by hand
        set-up code comes before ``iter(loader)``.
        """
        position = self._position
        if not (position.epoch or position.batch):
            self.drop_outdated()
            self.ensure()
            self.open()

    def open(self) -> None:
        """Make the iterator over the rest of this epoch."""
        feed, position = self.feed, self._position
        assert feed is not None
        feed.set_epoch(position.epoch)
        self.count_batches()
        most = self._agenda.num_batches
        if not position.batch:
            self.samples_elsewhere = 0
        if position.exhausted:  # a file from the end of an epoch: nothing of it is read again
            feed.close()  # the loader's own generators now stand where they stood, for whoever reads it next
            self.batches = iter(())
        elif feed.stops_at_length or feed.num_batches is None or most < feed.num_batches:
            # islice asks for no batch beyond the limit: that would read samples, and draw from the generators
            left = None if most == float("inf") else max(int(most) - position.batch, 0)
            self.batches = islice(feed, left)
        else:
            self.batches = iter(feed)

    def read(self) -> Iterator[Any]:
        """Return the rest of this epoch's batches, and start the clock of training."""
        self.start_clock()
        if self.batches is None:
            self.open()
        assert self.batches is not None
        self._place = None
        return self.batches

    def pause(self) -> None:
        """Stop the clock; the iterator of an epoch that was left early stays, for a checkpoint."""
        self.stop_clock()
        self._position.exhausted = self._agenda.at_end()
        if self._position.exhausted:
            self.batches = None

    def leave(self) -> None:
        """Note where the data stands, for a fit that continues or a checkpoint after it; let go of the iterator."""
        self.put_generators_back()  # where there was nothing left to train
        self._place, self.batches = self.place(), None

    def close(self) -> None:
        """Let go of the loaders' workers."""
        self.batches = None
        if self.feed is not None:
            self.feed.close()

    # ---- the clock ---------------------------------------------------------------------------------------------------

    def start_clock(self) -> None:
        """Have seconds count as training from here on."""
        self._clock = time.perf_counter()
        self._begun = self._begun or self._clock - self._position.passed

    def stop_clock(self) -> None:
        self._position.seconds, self._clock = self.seconds, None
        if self._begun:
            self._position.passed = time.perf_counter() - self._begun

    def note_seconds(self) -> None:
        """Have the position say how much there is: it is saved here."""
        runs = self._clock is not None
        self.stop_clock()
        if runs:
            self.start_clock()

    @property
    def seconds(self) -> float:
        return self._position.seconds + (0.0 if self._clock is None else time.perf_counter() - self._clock)

    # ---- a resume ----------------------------------------------------------------------------------------------------

    def place(self) -> StateDict | None:
        """Return the place in the training data: of a run that has not begun or has ended, where it goes on.

        In the middle of a batch, as when an error ends the run, it is the place before that batch: it is not done.
        """
        feed, position = self.feed, self._position
        if self._place is not None or feed is None:
            return self._place
        in_hand = not position.exhausted and feed.batches_done == position.batch + 1
        return feed.state_before() if in_hand else feed.state_dict()

    def load_place(self, saved: Saved) -> None:
        """Go on where a rank stood, in batches of their present size; generators stay where data is cut otherwise."""
        place = saved.own["feed"]
        if place is not None and self.feed is not None:
            if self._position.exhausted:
                place = {**place, "epoch": -1}  # no iteration goes on with it
                self.samples_elsewhere = saved.own.get("samples", 0)
            self.feed.load_state_dict(place)
            self._place = place
            if not self._position.exhausted:
                self._position.stand_at(self.feed.batches_done)
        if state := saved.own if saved.same_ranks else saved.same_shard:
            self._generators = state["generators"]

    def continue_from(self, last: TrainingData) -> None:
        self._place = last._place

    def put_generators_back(self) -> None:
        """Put the random generators of the checkpoint back, once."""
        if self._generators is not None:
            restore_generators(self._generators)
            self._generators = None
