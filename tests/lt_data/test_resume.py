"""A run that is cut anywhere and resumed in another process reads on as if nothing had happened, bit for bit."""

import itertools

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from lt_core.data import Feed
from lt_core.errors import DataError, LtWarning
from lt_core.strategy import Shard
from lt_data import CombinedLoader
from lt_data.loaders import feed as make_feed
from lt_data.resume.generators import host_state, set_host_state


def own():
    return torch.Generator().manual_seed(3)


WITHOUT_WORKERS = {
    "in order": lambda kit: DataLoader(kit.Noisy(), batch_size=4),
    "shuffled": lambda kit: DataLoader(kit.Noisy(), batch_size=2, shuffle=True),
    "drop_last": lambda kit: DataLoader(kit.Noisy(), batch_size=2, shuffle=True, drop_last=True),
    "own generators": lambda kit: DataLoader(kit.Owner(), batch_size=2, shuffle=True, generator=own()),
    "no batches": lambda kit: DataLoader(kit.Noisy(), batch_size=None, shuffle=True),
    "sampler that draws": lambda kit: DataLoader(kit.Noisy(), batch_size=2, sampler=kit.DrawsEachIndex(9)),
    "sampler that draws at once": lambda kit: DataLoader(kit.Noisy(), batch_size=2, sampler=kit.DrawsAtIter(9)),
    "sampler with a generator": lambda kit: DataLoader(kit.Noisy(), batch_size=2, sampler=kit.OwnsGenerator(9)),
    "batch sampler": lambda kit: DataLoader(kit.Noisy(), batch_sampler=kit.Buckets(11)),
    "table": lambda kit: DataLoader(kit.table(), batch_size=2, shuffle=True),
    "table, own generator": lambda kit: DataLoader(kit.table(), batch_size=2, shuffle=True, generator=own()),
    "table, one batch": lambda kit: DataLoader(kit.table(), batch_size=11, shuffle=True, generator=own()),
    "table, sampler that draws": lambda kit: DataLoader(kit.table(), batch_size=2, sampler=kit.DrawsEachIndex(9)),
    "table, batch sampler": lambda kit: DataLoader(kit.table(), batch_sampler=kit.Buckets(11)),
    "stateful stream": lambda kit: DataLoader(kit.Stateful(11), batch_size=2),
    "list": lambda kit: [torch.ones(2) * number for number in range(5)],
}


@pytest.mark.parametrize("name", WITHOUT_WORKERS)
def test_resume_at_every_batch(kit, name):
    kit.assert_resumes(lambda: WITHOUT_WORKERS[name](kit))


SOME = [(0, 1), (0, 6), (1, 0), (1, 1), (1, 3)]

WITH_WORKERS = {
    "workers": (lambda kit: DataLoader(kit.Noisy(), 2, shuffle=True, num_workers=2), SOME),
    "workers that draw half of a pair": (
        lambda kit: DataLoader(kit.Halves(5), 1, num_workers=1),
        [(0, 1), (0, 2), (1, 3)],
    ),
    "persistent workers": (
        lambda kit: DataLoader(kit.Noisy(), 2, shuffle=True, num_workers=2, persistent_workers=True),
        SOME,
    ),
    "persistent workers, own generators": (
        lambda kit: DataLoader(kit.Owner(), 2, shuffle=True, num_workers=2, generator=own(), persistent_workers=True),
        SOME[::2],
    ),
    "three workers, no batches": (
        lambda kit: DataLoader(kit.Noisy(), None, shuffle=True, num_workers=3),
        [(0, 1), (0, 4), (1, 2), (1, 11)],
    ),
    "sampler that draws": (
        lambda kit: DataLoader(kit.Noisy(), 2, num_workers=2, sampler=kit.DrawsEachIndex(17)),
        [(0, 1), (0, 4), (1, 2), (1, 8)],
    ),
    "sampler that draws at once": (
        lambda kit: DataLoader(kit.Noisy(), 2, num_workers=2, sampler=kit.DrawsAtIter(9), persistent_workers=True),
        [(0, 1), (1, 0), (1, 2), (1, 5)],
    ),
    "table": (lambda kit: DataLoader(kit.table(), 2, shuffle=True, num_workers=2), SOME),
    "table, persistent": (
        lambda kit: DataLoader(kit.table(), 2, shuffle=True, num_workers=2, persistent_workers=True, generator=own()),
        SOME,
    ),
    "stateful stream": (
        lambda kit: DataLoader(kit.Stateful(23), 2, num_workers=3),
        [(0, 4), (0, 11), (0, 12), (1, 0)],
    ),
    "stateful stream, persistent": (
        lambda kit: DataLoader(kit.Stateful(23), 2, num_workers=3, persistent_workers=True),
        [(0, 4), (1, 0), (1, 1), (1, 12)],
    ),
}


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
@pytest.mark.filterwarnings("ignore:Owner .*LT465")  # it stays what the loop by hand does
@pytest.mark.parametrize("name", WITH_WORKERS)
def test_resume_with_workers(kit, name):
    make, places = WITH_WORKERS[name]
    kit.assert_resumes(lambda: make(kit), places=places)


@pytest.mark.parametrize("workers", [0, 2])
def test_resume_in_epochs_that_a_limit_cuts_short(kit, workers):
    more = {"num_workers": workers, "persistent_workers": True} if workers else {}
    places = [(0, 1), (0, 3), (1, 0), (1, 1), (1, 2)]
    make = lambda: DataLoader(kit.Noisy(21), batch_size=2, shuffle=True, **more)  # noqa: E731
    kit.assert_resumes(make, limit=3, places=places)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_without_a_state_is_read_again_and_says_so(kit, workers):
    def make():
        return DataLoader(kit.Shuffled(23), batch_size=2, num_workers=workers, persistent_workers=workers > 0)

    with pytest.warns(LtWarning, match=r"\d+ batches are dropped.*LT445"):
        kit.assert_resumes(make, places=[(0, 1), (0, 4), (1, 0), (1, 2), (1, 12)])


def test_any_iterable_is_read_again(kit):
    class Loader:
        def __iter__(self):
            for _ in range(6):
                yield torch.rand(2)

    with pytest.warns(LtWarning, match="LT445"):
        kit.assert_resumes(Loader)


def test_an_endless_generator_goes_on_where_it_was(kit):
    def endless():
        while True:
            yield torch.rand(1)

    with pytest.warns(LtWarning, match="LT445"):
        kit.assert_resumes(endless, epochs=3, limit=3)


class OwnIterator:
    """Six batches, given by ``__next__`` of the loader itself."""

    total = 6

    def __init__(self):
        self.given = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.given == self.total:
            raise StopIteration
        self.given += 1
        return torch.tensor([self.given]), torch.rand(1)


class BeginsAtIter(OwnIterator):
    """``iter`` begins anew, and draws an order."""

    def __iter__(self):
        self.given, self.order = 0, torch.randperm(self.total)
        return self

    def __next__(self):
        batch = super().__next__()
        return self.order[self.given - 1], batch


class BeginsAtEnd(OwnIterator):
    """The end begins anew; the order is drawn from a generator of its own at the first batch."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(4)

    def __next__(self):
        if not self.given:
            self.order = torch.randperm(self.total, generator=self.generator)
        try:
            batch = super().__next__()
        except StopIteration:
            self.given = 0
            raise
        return self.order[self.given - 1], batch


class Sized(BeginsAtEnd):
    def __len__(self):
        return self.total


class Long(OwnIterator):
    """So many batches that they are trusted to draw nothing; the end begins anew."""

    total = 300

    def __next__(self):
        if self.given == self.total:
            self.given = 0
            raise StopIteration
        self.given += 1
        return torch.tensor([self.given])


@pytest.mark.parametrize("make", [BeginsAtIter, BeginsAtEnd, Sized, Long])
def test_a_loader_that_is_its_own_iterator_is_read_as_by_hand(kit, make):
    kit.seed()
    expected, end = kit.by_hand(make(), epochs=3)
    kit.seed()
    seen, rest, _ = kit.train(make(), epochs=3)
    assert (seen, rest) == (expected, end)


@pytest.mark.filterwarnings("ignore:.*LT445", "ignore:.*says that it has 6 batches and gave 2")
@pytest.mark.parametrize("limit", [None, 4, 6])
@pytest.mark.parametrize("make", [BeginsAtIter, BeginsAtEnd, Sized])
def test_a_loader_that_is_its_own_iterator_goes_on_after_a_resume(kit, make, limit):
    kit.assert_resumes(make, epochs=4, limit=limit)


@pytest.mark.filterwarnings("ignore:.*LT445")
def test_a_long_loader_that_is_its_own_iterator_goes_on_after_a_resume(kit):
    kit.assert_resumes(Long, epochs=3, places=[(0, 17), (0, 300), (1, 0), (1, 290), (2, 0), (2, 20)])


@pytest.mark.parametrize("make", [BeginsAtIter, BeginsAtEnd])
def test_limits_leave_a_loader_that_is_its_own_iterator_as_a_loop_by_hand_does(kit, make):
    kit.seed()
    loader, expected = make(), []
    for epoch in range(3):
        for index, batch in enumerate(itertools.islice(loader, 2)):
            expected.append(((epoch, index), kit.step(batch)))
    kit.seed()
    assert kit.train(make(), epochs=3, limit=2)[0] == expected


def test_a_generator_of_one_epoch_is_spent_in_the_second(kit):
    with pytest.raises(DataError, match=r"generator gave no batch in epoch 1.*a generator spent.*LT410"):
        kit.train((torch.rand(1) for _ in range(3)), epochs=2)
    with pytest.raises(DataError, match="LT410"):
        kit.train((torch.rand(1) for _ in range(3)), epochs=2, limit=3)


@pytest.mark.filterwarnings("ignore:.*LT445")
def test_an_iterable_with_a_generator_of_its_own_goes_on_at_an_epochs_start(kit):
    class Owns:
        def __init__(self):
            self.generator = torch.Generator().manual_seed(4)

        def __iter__(self):
            for _ in range(4):
                yield torch.rand(1, generator=self.generator)

    kit.assert_resumes(Owns, epochs=3)
    kit.assert_resumes(Owns, epochs=3, limit=2)


def test_a_loader_with_a_state_of_its_own_continues_by_it(kit):
    class Loader(kit.Stateful):
        """In the manner of torchdata's StatefulDataLoader."""

    kit.assert_resumes(lambda: Loader(6))


def test_skipped_samples_are_not_read(kit):
    read = []

    class Counting(kit.Numbers):
        def __getitem__(self, index):
            read.append(index)
            return index

    loader = DataLoader(Counting(10), batch_size=2)
    feed = kit.make_feed(loader, stage="fit")
    batches = iter(feed)
    next(batches), next(batches)
    state = kit.saved(feed.state_dict())
    read.clear()
    resumed = kit.make_feed(loader, stage="fit")
    resumed.load_state_dict(state)
    assert resumed.batches_done == 2
    assert [batch.tolist() for batch in resumed] == [[4, 5], [6, 7], [8, 9]]
    assert read == [4, 5, 6, 7, 8, 9]


def test_a_state_of_another_epoch_begins_anew(kit):
    feed = kit.make_feed(DataLoader(kit.Numbers(4), batch_size=2), stage="fit")
    batches = iter(feed)
    next(batches)
    other = kit.make_feed(DataLoader(kit.Numbers(4), batch_size=2), stage="fit")
    other.load_state_dict(feed.state_dict())
    other.set_epoch(1)
    assert len(list(other)) == 2


def test_the_state_of_cores_feed_is_taken_over(kit):
    def make():
        return DataLoader(kit.Noisy(), batch_size=2, shuffle=True)

    kit.seed()
    whole = [kit.step(batch) for batch in Feed(make(), stage="fit")]
    kit.seed()
    core = Feed(make(), stage="fit")
    batches = iter(core)
    for _ in range(3):
        kit.step(next(batches))
    state, generators = core.state_dict(), kit.capture_generators()
    kit.seed(99)
    feed = kit.make_feed(make(), stage="fit")
    feed.load_state_dict(state)
    kit.restore_generators(generators)
    assert [kit.step(batch) for batch in feed] == whole[3:]


def test_other_data_is_refused_in_the_middle_of_an_epoch(kit):
    feed = kit.make_feed(DataLoader(kit.Numbers(8), batch_size=2), stage="fit")
    batches = iter(feed)
    next(batches)
    other = kit.make_feed(DataLoader(kit.Numbers(10), batch_size=2), stage="fit")
    other.load_state_dict(feed.state_dict())
    with pytest.raises(DataError, match=r"8 samples in the dataset; now there are 10.*LT444"):
        iter(other)


def test_other_data_is_refused_on_a_rank_among_several_too(kit):
    feed = kit.make_feed(DataLoader(kit.Numbers(8), batch_size=2, shuffle=True), stage="fit", shard=Shard(0, 2))
    batches = iter(feed)
    next(batches)
    other = kit.make_feed(DataLoader(kit.Numbers(12), batch_size=2, shuffle=True), stage="fit", shard=Shard(0, 2))
    other.load_state_dict(feed.state_dict())
    with pytest.raises(DataError, match=r"epoch of 8 samples; now there are 12.*LT444"):
        iter(other)


@pytest.mark.parametrize("shuffle", [False, True])
def test_one_ranks_place_is_one_in_samples_when_two_ranks_read_smaller_batches(kit, shuffle):
    kit.seed()
    one = kit.make_feed(DataLoader(kit.Numbers(24), batch_size=6, shuffle=shuffle), stage="fit")
    batches = iter(one)
    read = [number for _ in range(2) for number in next(batches).tolist()]
    for rank in range(2):
        loader = DataLoader(kit.Numbers(24), batch_size=3, shuffle=shuffle)
        feed = kit.make_feed(loader, stage="fit", shard=Shard(rank, 2))
        feed.load_state_dict(one.state_dict())
        assert (feed.samples, feed.batches_done) == (12, 2)
        read += [number for batch in feed for number in batch.tolist()]
    assert sorted(read) == list(range(24))


def test_another_kind_of_loader_is_refused(kit):
    feed = kit.make_feed([1, 2, 3], stage="fit")
    batches = iter(feed)
    next(batches)
    other = kit.make_feed(DataLoader(kit.Numbers(3)), stage="fit")
    with pytest.raises(DataError, match=r"read a iterable.*which reads a loader.*LT446"):
        other.load_state_dict(feed.state_dict())


class Quiet(IterableDataset):
    """A loader of somebody else's, or a stream, that draws from a batch on; it yields the sums of its draws."""

    def __init__(self, kit, draws_from, every=1, total=600):
        self.kit, self.draws_from, self.every, self.total = kit, draws_from, every, total

    def __iter__(self):
        drawn = torch.zeros(3, dtype=torch.float64)
        for number in range(self.total):
            if number >= self.draws_from and not (number - self.draws_from) % self.every:
                drawn = drawn + torch.tensor(self.kit.draw(), dtype=torch.float64)
            yield torch.cat([torch.tensor([float(number)]), drawn])


def streamed(kit, *arguments):
    return DataLoader(Quiet(kit, *arguments), batch_size=None)


def beside_steps(kit, feed, steps_from, start=0):
    """Yield the batches of an epoch beside steps that draw, from one on."""
    for number, batch in enumerate(feed, start):
        if number >= steps_from:
            kit.draw()
        yield kit.flat(batch)


@pytest.mark.filterwarnings("ignore:To continue in the middle")
@pytest.mark.parametrize("loader", [Quiet, streamed])
@pytest.mark.parametrize("batches", [15, 16, 17, 31, 32, 33, 255, 256, 257, 300, 511, 512, 513, 600])
def test_a_quiet_loader_is_counted_though_not_each_batch_is_looked_at(kit, batches, loader):
    feed, again = (kit.make_feed(loader(kit, 1000), stage="fit") for _ in range(2))
    iterator = iter(feed)
    for _ in range(batches):
        next(iterator)
    again.load_state_dict(kit.saved(feed.state_dict()))
    assert [int(batch[0]) for batch in again] == list(range(batches, 600))


LATE = {  # what draws from which batch on: the loader, and each so many; the steps
    "the loader alone": (40, 1, 1000),
    "the loader alone, now and then": (41, 50, 1000),
    "the steps alone": (1000, 1, 39),
    "the loader, later the steps": (40, 1, 100),
    "the steps, later the loader": (100, 7, 39),
    "the steps always, the loader now and then": (25, 50, 0),
    "both always": (0, 1, 0),
    "both soon": (3, 2, 5),
}


@pytest.mark.filterwarnings("ignore:To continue in the middle", "error:.*LT448")
@pytest.mark.parametrize("batches", [1, 17, 42, 120])
@pytest.mark.parametrize("case", LATE)
def test_a_stream_that_draws_late_goes_on_exactly(kit, case, batches):
    draws_from, every, steps_from = LATE[case]
    feed, again = (kit.make_feed(streamed(kit, draws_from, every, 130), stage="fit") for _ in range(2))
    kit.seed()
    epoch = beside_steps(kit, feed, steps_from)
    for _ in range(batches):
        next(epoch)
    state, process = kit.saved(feed.state_dict()), host_state()
    rest = list(epoch)
    kit.seed(99)
    again.load_state_dict(state)
    set_host_state(process)
    assert list(beside_steps(kit, again, steps_from, batches)) == rest


@pytest.mark.parametrize(
    ("loader", "draws_from", "steps_from"), [(Quiet, 40, 0), (Quiet, 300, 0), (Quiet, 40, 40), (streamed, 40, 40)]
)
def test_a_loader_that_begins_to_draw_unseen_is_told(kit, loader, draws_from, steps_from):
    feed = kit.make_feed(loader(kit, draws_from), stage="fit")
    with pytest.warns(LtWarning, match="LT448"):
        list(beside_steps(kit, feed, steps_from))


def pair(kit, mode):
    return CombinedLoader(
        [DataLoader(kit.Numbers(9), 2, shuffle=True, generator=own()), DataLoader(kit.Numbers(5), 2)], mode
    )


READ_AGAIN = {
    "shuffled": lambda kit: DataLoader(kit.Numbers(11), 2, shuffle=True),
    "two workers": lambda kit: DataLoader(kit.Numbers(11), 2, shuffle=True, num_workers=2, generator=own()),
    "persistent": lambda kit: DataLoader(kit.Numbers(11), 2, shuffle=True, num_workers=2, persistent_workers=True),
    "sampler that draws": lambda kit: DataLoader(kit.Numbers(11), 2, sampler=kit.DrawsEachIndex(9)),
    "batch sampler": lambda kit: DataLoader(kit.Numbers(11), batch_sampler=kit.Buckets(11)),
    "table": lambda kit: DataLoader(kit.table(), 2, shuffle=True),
    "table, sampler that draws": lambda kit: DataLoader(kit.table(), 2, sampler=kit.DrawsEachIndex(9)),
    "stream": lambda kit: DataLoader(kit.NumberStream(11), 2),
    "stream, workers": lambda kit: DataLoader(kit.NumberStream(11), 2, num_workers=2),
    "list": lambda kit: [torch.ones(2) * number for number in range(5)],
    "range": lambda kit: range(5),
    **{mode: lambda kit, mode=mode: pair(kit, mode) for mode in ("min_size", "max_size", "max_size_cycle")},
    **{mode: lambda kit, mode=mode: pair(kit, mode) for mode in ("sequential", "weighted")},
}


@pytest.mark.filterwarnings("ignore:To continue in the middle of the epoch")
@pytest.mark.parametrize("name", READ_AGAIN)
def test_a_batch_in_which_an_error_came_is_read_again(kit, name):
    kit.seed()
    feed, seen, states = make_feed(READ_AGAIN[name](kit), stage="fit"), [], []
    for batch in feed:
        kit.step(batch)
        seen.append(kit.flat(batch))
        states.append(kit.saved(feed.state_before()))
    feed.close()
    for number, state in enumerate(states):
        kit.seed(99)
        again = make_feed(READ_AGAIN[name](kit), stage="fit")
        again.load_state_dict(state)
        assert again.batches_done == number
        rest = [kit.flat(batch) for batch in again]
        assert rest[0] == seen[number], number
        assert rest == seen[number:] or "draws" in name, number  # such a sampler goes on with what steps draw
        again.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_the_place_at_which_reading_failed_is_kept(kit, workers):
    class Fails(kit.Numbers):
        bad = True

        def __getitem__(self, index):
            if self.bad and index == 7:
                raise KeyError(index)
            return index

    data = Fails(11)
    feed, seen = make_feed(DataLoader(data, 2, num_workers=workers), stage="fit"), []
    with pytest.raises(KeyError):
        seen.extend(kit.flat(batch) for batch in feed)
    state = kit.saved(feed.state_dict())
    feed.close()
    data.bad = False
    again = make_feed(DataLoader(data, 2, num_workers=workers), stage="fit")
    again.load_state_dict(state)
    seen.extend(kit.flat(batch) for batch in again)
    again.close()
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]
