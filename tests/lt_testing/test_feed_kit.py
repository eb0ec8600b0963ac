"""The kit for feeds: core's own passes it, and wrong ones do not."""

from contextlib import suppress

import pytest
import torch

from lt_core import Feed
from lt_testing import FeedKit


class TestCore(FeedKit):
    def make_feed(self, loader, **how):
        return Feed(loader, **how)


class Waits(Feed):
    """Makes the loader's iterator when the first batch is asked for."""

    def __iter__(self):
        yield from super().__iter__()


class ReadsAhead(Feed):
    def _open(self):
        return iter(list(super()._open()))


class Draws(Feed):
    def set_epoch(self, epoch):
        super().set_epoch(epoch)
        torch.rand(1)


class Forgets(Feed):
    def load_state_dict(self, state):
        pass


class OneTooFar(Feed):
    def state_dict(self):
        state = super().state_dict()
        return {**state, "batches": state["batches"] + 1}


class TransfersTwice(Feed):
    def _deliver(self, iterator):
        for batch in super()._deliver(iterator):
            yield batch if self.transfer is None else self.transfer(batch)


class DropsTheLast(Feed):
    def _open(self):
        return iter(list(super()._open())[:-1])


class KeepsTheEpochToItself(Feed):
    def set_epoch(self, epoch):
        self._epoch = epoch


class KeepsItself(Feed):
    def state_dict(self):
        return {**super().state_dict(), "feed": self}


class CutsAnyEpoch(Feed):
    def load_state_dict(self, state):
        self.start = state["batches"]

    def _open(self):
        iterator, start = super()._open(), getattr(self, "start", 0)
        self.start = 0
        for _ in range(start):
            next(iterator)
        return iterator


class AllReadAll(Feed):
    """Gives every rank everything."""


class EveryOtherBatch(Feed):
    """Gives each rank every n-th batch, the last one to whom it falls."""

    def _open(self):
        return iter(list(super()._open())[self.shard.index :: self.shard.count])


class SwallowsErrors(Feed):
    """Ends the epoch where the data fail."""

    def _open(self):
        return self._until_an_error(super()._open())

    def _until_an_error(self, batches):
        with suppress(ArithmeticError):
            yield from batches


class CountsWhatItWillRead(Feed):
    def __iter__(self):
        iterator = super().__iter__()
        self.batches_done = self.num_batches or 0
        return iterator


class CountsSamples(Feed):
    @property
    def num_batches(self):
        return len(self.loader.dataset) if hasattr(self.loader, "dataset") else super().num_batches


class GoesOnAfterABreak(Feed):
    """Keeps the iterator of an epoch that was left."""

    kept = None

    def __iter__(self):
        self.kept = self.kept or super().__iter__()
        yield from self.kept
        self.kept = None


class ChangesItsState(Feed):
    """Draws when it is asked where it is."""

    def state_dict(self):
        torch.rand(1)
        return super().state_dict()


CAUGHT_BY = [
    (SwallowsErrors, "test_the_user_s_error_comes_out_after_the_batches_before_it"),
    (CountsWhatItWillRead, "test_batches_done_are_counted"),
    (CountsSamples, "test_it_has_as_many_batches_as_the_loader_says"),
    (GoesOnAfterABreak, "test_an_epoch_that_was_left_begins_anew"),
    (ChangesItsState, "test_asking_for_the_state_changes_nothing"),
    (Waits, "test_the_loader_s_iterator_is_made_at_once"),
    (ReadsAhead, "test_no_batch_is_read_before_it_is_asked_for"),
    (Draws, "test_the_batches_are_those_of_the_plain_loop"),
    (Forgets, "test_a_run_cut_at_any_batch_reads_on_as_if_it_had_not_been"),
    (OneTooFar, "test_a_run_cut_at_any_batch_reads_on_as_if_it_had_not_been"),
    (TransfersTwice, "test_each_batch_is_transferred_once_and_when_it_is_asked_for"),
    (DropsTheLast, "test_the_batches_are_those_of_the_plain_loop"),
    (KeepsTheEpochToItself, "test_the_sampler_is_told_the_epoch_once"),
    (KeepsItself, "test_its_state_is_plain_data_anywhere"),
    (CutsAnyEpoch, "test_a_state_of_another_epoch_does_not_cut_this_one"),
    (AllReadAll, "test_ranks_take_equally_many_steps_and_each_sample_once"),
    (EveryOtherBatch, "test_weights_make_the_mean_of_the_ranks_that_of_the_samples"),
]


@pytest.mark.parametrize(("kind", "test"), CAUGHT_BY)
def test_a_wrong_feed_fails_where_it_is_wrong(kind, test, caught_by):
    class Wrong(FeedKit):
        __test__ = False
        ranks = (2,)

        def make_feed(self, loader, **how):
            return kind(loader, **how)

    assert caught_by(Wrong, test)


def test_an_epoch_that_failed_in_its_first_batch_is_resumed_in_its_own_order():
    def loader():
        return torch.utils.data.DataLoader(range(20), batch_size=4, shuffle=True)

    torch.manual_seed(1)
    feed = Feed(loader(), stage="fit")
    batches = iter(feed)
    first, state = next(batches), feed.state_before()
    wanted = [batch.tolist() for batch in (first, *batches)]
    torch.manual_seed(99)
    resumed = Feed(loader(), stage="fit")
    resumed.load_state_dict(state)
    assert [batch.tolist() for batch in resumed] == wanted
