"""Tests that every feed must pass: subclass :class:`FeedKit` and let pytest run it.

::

    class TestMyFeed(FeedKit):
        def make_feed(self, loader, **how):
            return MyFeed(loader, **how)

The oracle is the plain loop over the loader, with the same random numbers. All data is made here, without workers.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from lt_core.data import Feed
from lt_core.files.plain_data import is_plain
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import Shard
from lt_testing.kit import Kit
from lt_testing.training import assert_same, same

__all__ = ["FeedKit"]

SAMPLES = 11
NUMBERS: Any = range(SAMPLES)
"""Samples that are their numbers."""


class Noisy(Dataset[Tensor]):
    """Samples that are augmented at random: each is its number, and a draw of each generator."""

    def __init__(self, fails_at: int = -1) -> None:
        self.fails_at = fails_at

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        if index == self.fails_at:
            raise ArithmeticError(f"sample {index} fails, on purpose")
        return torch.tensor([float(index), torch.rand(1).item(), random.random()])


class Told(RandomSampler):
    """A sampler that wants to know the epoch."""

    def __init__(self) -> None:
        super().__init__(NUMBERS)
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        """Note it."""
        self.epochs.append(epoch)


class Endless:
    """An iterable without a length that notes when its iterator is made."""

    def __init__(self, batches: int = 4) -> None:
        self.batches, self.begun, self.read = batches, 0, 0

    def __iter__(self) -> Iterator[Tensor]:
        self.begun += 1
        return self._items()

    def _items(self) -> Iterator[Tensor]:
        for number in range(self.batches):
            self.read += 1
            yield torch.tensor([number])


class FeedKit(Kit):
    """Tests of the :class:`~lt_core.data.Feed` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        ranks: numbers of ranks that it can share a DataLoader among.
    """

    ranks: ClassVar[tuple[int, ...]] = (1,)

    def make_feed(self, loader: Any, **how: Any) -> Feed:
        """Return a new feed of ``loader``; ``how`` holds ``stage``, and ``shard``, ``seed``, ``transfer`` at times."""
        raise NotImplementedError(f"{type(self).__name__} must define make_feed()")

    # ---- an epoch ----------------------------------------------------------------------------------------------------

    def test_the_batches_are_those_of_the_plain_loop(self) -> None:
        for stage in ("fit", "validate", "test", "predict"):
            _seed(1)
            plain, after = list(_shuffled()), capture_generators()
            _seed(1)
            feed = self.make_feed(_shuffled(), stage=stage)
            feed.set_epoch(0)
            assert_same(list(feed), plain, "batches")
            assert same(capture_generators(), after), f"{stage}: it drew other random numbers than the plain loop"

    def test_each_epoch_is_read_anew(self) -> None:
        _seed(1)
        loader = _shuffled()
        plain = [list(loader) for _ in range(3)]
        _seed(1)
        feed = self._feed()
        for epoch, batches in enumerate(plain):
            feed.set_epoch(epoch)
            assert_same(list(feed), batches, "batches")

    def test_any_iterable_is_read(self) -> None:
        batches = [torch.tensor([1]), {"a": 2}, "three"]
        feed = self._feed(batches)
        for _ in range(2):
            assert all(mine is theirs for mine, theirs in zip(feed, batches, strict=True))

    def test_the_loader_s_iterator_is_made_at_once(self) -> None:
        loader = Endless()
        iterator = iter(self._feed(loader))
        assert loader.begun == 1, "making it may draw random numbers: it must not wait for the first next()"
        assert int(next(iterator)) == 0

    def test_no_batch_is_read_before_it_is_asked_for(self) -> None:
        loader = Endless()
        feed = self._feed(loader)
        for number, _ in enumerate(feed, start=1):
            assert loader.read == number

    def test_it_has_as_many_batches_as_the_loader_says(self) -> None:
        assert self._feed().num_batches == len(_shuffled())
        assert self.make_feed([1, 2, 3], stage="test").num_batches == 3
        assert self._feed(Endless()).num_batches is None

    def test_batches_done_are_counted(self) -> None:
        feed = self._feed()
        for _ in range(2):
            assert [feed.batches_done for _ in feed] == list(range(1, len(_shuffled()) + 1))

    def test_an_epoch_that_was_left_begins_anew(self) -> None:
        feed = self._feed([10, 11, 12])
        for batch in feed:
            if batch == 11:
                break
        assert list(feed) == [10, 11, 12]
        assert feed.batches_done == 3

    def test_each_batch_is_transferred_once_and_when_it_is_asked_for(self) -> None:
        seen: list[int] = []

        def transfer(batch: int) -> int:
            seen.append(batch)
            return batch + 100

        iterator = iter(self.make_feed([1, 2, 3], stage="fit", transfer=transfer))
        assert next(iterator) == 101
        assert seen == [1]
        assert list(iterator) == [102, 103]
        assert seen == [1, 2, 3]

    def test_the_sampler_is_told_the_epoch_once(self) -> None:
        sampler = Told()
        feed = self._feed(DataLoader(NUMBERS, batch_size=2, sampler=sampler))
        for epoch in (0, 1, 5):
            feed.set_epoch(epoch)
        assert sampler.epochs == [0, 1, 5]

    def test_the_user_s_error_comes_out_after_the_batches_before_it(self) -> None:
        feed = self._feed(DataLoader(Noisy(fails_at=4), batch_size=2))
        batches = iter(feed)
        assert len([next(batches), next(batches)]) == 2
        with pytest.raises(ArithmeticError, match="sample 4 fails, on purpose"):
            next(batches)
        assert feed.state_dict()["batches"] == 2, "the place is asked for, for a checkpoint that the error leads to"

    def test_it_can_be_closed_at_any_time_and_twice(self) -> None:
        feed = self._feed()
        feed.close()
        next(iter(feed))
        feed.close()
        feed.close()

    # ---- its messages ------------------------------------------------------------------------------------------------

    def test_positions_are_those_of_the_batch_or_unknown(self) -> None:
        for shuffle in (False, True):
            feed = self.make_feed(DataLoader(NUMBERS, batch_size=4, shuffle=shuffle), stage="predict")
            for batch in feed:
                assert feed.indices is None or list(feed.indices) == batch.tolist()

    def test_samples_are_counted_or_unknown(self) -> None:
        feed = self._feed(DataLoader(NUMBERS, batch_size=4))
        assert [feed.samples for _ in feed] in ([4, 8, 11], [None] * 3)
        assert feed.samples in (11, None)

    def test_outputs_of_one_rank_stay_in_their_order(self) -> None:
        feed = self.make_feed([1, 2, 3], stage="predict")
        assert feed.in_order([[10, 20, 30]]) == [10, 20, 30]

    def test_long_waits_have_a_hint_and_short_ones_have_none(self) -> None:
        feed = self._feed([1, 2, 3])
        feed.timed = True
        assert list(feed) == [1, 2, 3]
        assert feed.wait_hint() is None
        feed.wait_seconds, feed.read_seconds = 30.0, 60.0
        hint = feed.wait_hint()
        assert feed.advice()
        assert hint is not None
        assert feed.advice() in hint

    # ---- resuming ----------------------------------------------------------------------------------------------------

    def test_its_state_is_plain_data_anywhere(self) -> None:
        feed = self._feed()
        assert is_plain(feed.state_dict())
        for _ in feed:
            assert is_plain(feed.state_dict())
            assert is_plain(feed.state_before())
        assert is_plain(feed.state_dict())

    def test_asking_for_the_state_changes_nothing(self) -> None:
        _seed(1)
        plain = list(_shuffled())
        _seed(1)
        feed, batches = self._feed(), []
        for batch in feed:
            feed.state_dict(), feed.state_before()
            batches.append(batch)
        assert_same(batches, plain, "batches")

    def test_a_run_cut_at_any_batch_reads_on_as_if_it_had_not_been(self) -> None:
        whole, places, end = self._whole_run()
        for epoch, done, state, generators in places:
            _seed(99)  # another process
            feed = self._feed()
            restore_generators(generators)
            feed.load_state_dict(copy.deepcopy(state))
            assert feed.batches_done == done
            rest = self._epochs(feed, epoch)
            wanted = whole[epoch][done:] + [batch for batches in whole[epoch + 1 :] for batch in batches]
            assert_same(rest, wanted, "batches")
            assert same(capture_generators(), end), f"after {done} batches of epoch {epoch}: later draws differ"

    def test_the_place_before_a_batch_leads_to_that_batch_again(self) -> None:
        _seed(1)
        loader = DataLoader(NUMBERS, batch_size=2, shuffle=True)
        feed, batches, states = self._feed(loader), [], []
        for batch in feed:
            batches.append(batch)
            states.append(feed.state_before())
        for number, state in enumerate(states):
            resumed = self._feed(DataLoader(NUMBERS, batch_size=2, shuffle=True))
            resumed.load_state_dict(state)
            rest = list(resumed)
            wanted = batches[number:]
            if int(state["batches"]) != number:  # where it is not known, the place after it is given
                wanted = batches[number + 1 :]
            assert_same(rest, wanted, "batches")

    def test_a_state_of_another_epoch_does_not_cut_this_one(self) -> None:
        feed = self._feed([1, 2, 3])
        feed.set_epoch(0)
        iterator = iter(feed)
        next(iterator)
        state = feed.state_dict()
        other = self._feed([1, 2, 3])
        other.load_state_dict(state)
        other.set_epoch(1)
        assert list(other) == [1, 2, 3]

    # ---- ranks -------------------------------------------------------------------------------------------------------

    def test_ranks_take_equally_many_steps_and_each_sample_once(self) -> None:
        for count in self.ranks:
            read = self._on_ranks(count, "fit")
            assert len({len(batches) for batches in read}) == 1, "a rank would wait for the others"
            samples = [sample for batches in read for weight, batch in batches if weight for sample in batch.tolist()]
            assert sorted(samples) == list(range(SAMPLES))

    def test_weights_make_the_mean_of_the_ranks_that_of_the_samples(self) -> None:
        for count in self.ranks:
            for step in zip(*self._on_ranks(count, "fit"), strict=True):
                sizes = [len(batch) if weight else 0 for weight, batch in step]
                for size, (weight, _) in zip(sizes, step, strict=True):
                    assert abs(weight - size * count / sum(sizes)) < 1e-9, "expected n_r * W / N"

    def test_evaluation_reads_each_sample_once_and_outputs_go_back_in_order(self) -> None:
        for count in self.ranks:
            read = self._on_ranks(count, "predict")
            by_rank = [[batch.tolist() for weight, batch in batches if weight] for batches in read]
            feed = self.make_feed(_in_order(), stage="predict", shard=Shard(0, count))
            outputs = feed.in_order(by_rank)
            assert [sample for output in outputs for sample in output] == list(range(SAMPLES))

    # ------------------------------------------------------------------------------------------------------------------

    def _feed(self, loader: Any = None) -> Feed:
        return self.make_feed(_shuffled() if loader is None else loader, stage="fit")

    def _on_ranks(self, count: int, stage: str) -> list[list[tuple[float, Tensor]]]:
        """Return each rank's batches of an epoch, with their weights."""
        read = []
        for rank in range(count):
            _seed(rank)
            feed = self.make_feed(_in_order(), stage=stage, shard=Shard(rank, count), seed=7)
            feed.set_epoch(0)
            batches = []
            for batch in feed:
                assert feed.uneven or feed.weight == 1.0, "its weights differ: say so by uneven"
                batches.append((feed.weight, batch))
            read.append(batches)
        return read

    def _whole_run(self) -> tuple[list[list[Any]], list[tuple[int, int, Any, Any]], Any]:
        """Return a run's batches by epoch, all places in it, and the generators at its end."""
        _seed(1)
        feed = self._feed()
        whole: list[list[Any]] = []
        places = []
        for epoch in range(2):
            feed.set_epoch(epoch)
            whole.append([])
            for done, batch in enumerate(feed, start=1):
                whole[-1].append(batch)
                if done < len(_shuffled()):  # after the last one, the epoch's end is the place
                    places.append((epoch, done, copy.deepcopy(feed.state_dict()), capture_generators()))
        return whole, places, capture_generators()

    def _epochs(self, feed: Feed, first: int) -> list[Any]:
        batches = []
        for epoch in range(first, 2):
            feed.set_epoch(epoch)
            batches += list(feed)
        return batches


def _shuffled() -> DataLoader[Tensor]:
    return DataLoader(Noisy(), batch_size=2, shuffle=True)


def _in_order() -> DataLoader[int]:
    return DataLoader(NUMBERS, batch_size=2)


def _seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
