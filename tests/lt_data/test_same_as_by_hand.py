"""On one process a feed gives the batches of the plain loop, and leaves all generators where the plain loop does."""

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, Subset, SubsetRandomSampler, WeightedRandomSampler

from lt_data import CombinedLoader


def own():
    return torch.Generator().manual_seed(3)


LOADERS = {
    "in order": lambda kit: DataLoader(kit.Noisy(), batch_size=4),
    "shuffled": lambda kit: DataLoader(kit.Noisy(), batch_size=2, shuffle=True),
    "drop_last": lambda kit: DataLoader(kit.Noisy(), batch_size=2, shuffle=True, drop_last=True),
    "own generator": lambda kit: DataLoader(kit.Owner(), batch_size=2, shuffle=True, generator=own()),
    "no batches": lambda kit: DataLoader(kit.Noisy(), batch_size=None, shuffle=True),
    "sampler that draws": lambda kit: DataLoader(kit.Noisy(), batch_size=2, sampler=kit.DrawsEachIndex(9)),
    "sampler that draws at once": lambda kit: DataLoader(kit.Noisy(), batch_size=2, sampler=kit.DrawsAtIter(9)),
    "batch sampler": lambda kit: DataLoader(kit.Noisy(), batch_sampler=kit.Buckets(11)),
    "table": lambda kit: DataLoader(kit.table(), batch_size=3),
    "table, shuffled": lambda kit: DataLoader(kit.table(), batch_size=2, shuffle=True),
    "table, drop_last": lambda kit: DataLoader(kit.table(), batch_size=2, shuffle=True, drop_last=True),
    "table, own generator": lambda kit: DataLoader(kit.table(), batch_size=2, shuffle=True, generator=own()),
    "table, one batch, own generator": lambda kit: DataLoader(kit.table(), 11, shuffle=True, generator=own()),
    "table, sampler that draws": lambda kit: DataLoader(kit.table(), batch_size=2, sampler=kit.DrawsEachIndex(9)),
    "table, sampler that draws at once": lambda kit: DataLoader(kit.table(), batch_size=2, sampler=kit.DrawsAtIter(9)),
    "table, batch sampler": lambda kit: DataLoader(kit.table(), batch_sampler=kit.Buckets(11)),
    "table, weighted": lambda kit: DataLoader(kit.table(), 3, sampler=WeightedRandomSampler([1.0] * 11, 20)),
    "table, subset sampler": lambda kit: DataLoader(kit.table(), 3, sampler=SubsetRandomSampler([1, 5, -2, 7])),
    "table, with replacement": lambda kit: DataLoader(
        kit.table(), 3, sampler=RandomSampler(range(11), replacement=True, num_samples=70, generator=own())
    ),
    "table, more than once": lambda kit: DataLoader(kit.table(), 4, sampler=RandomSampler(range(11), num_samples=25)),
    "subset of a subset": lambda kit: DataLoader(
        Subset(Subset(kit.table(), [3, -1, 5, 8, 0, 2]), [5, 1, 2, -3]), batch_size=3, shuffle=True
    ),
    "stream": lambda kit: DataLoader(kit.Shuffled(11), batch_size=2),
    "list": lambda kit: [torch.ones(2) * number for number in range(5)],
    "workers": lambda kit: DataLoader(kit.Noisy(), batch_size=2, shuffle=True, num_workers=2),
    "persistent workers": lambda kit: DataLoader(
        kit.Owner(), batch_size=2, shuffle=True, num_workers=2, persistent_workers=True, generator=own()
    ),
    "workers, sampler that draws": lambda kit: DataLoader(
        kit.Noisy(), batch_size=2, sampler=kit.DrawsEachIndex(15), num_workers=2
    ),
    "workers, table": lambda kit: DataLoader(kit.table(), batch_size=2, shuffle=True, num_workers=2),
    "persistent workers, table": lambda kit: DataLoader(
        kit.table(), batch_size=2, shuffle=True, num_workers=2, persistent_workers=True, generator=own()
    ),
    "workers, stream": lambda kit: DataLoader(kit.Shuffled(23), batch_size=2, num_workers=2),
}


@pytest.mark.filterwarnings("ignore:Owner .*LT465")  # it stays what the loop by hand does
@pytest.mark.parametrize("name", LOADERS)
def test_batches_and_generators_are_those_of_the_plain_loop(kit, name):
    kit.seed()
    expected, next_draws = kit.by_hand(LOADERS[name](kit), epochs=3)
    kit.seed()
    seen, mine, _ = kit.train(LOADERS[name](kit), epochs=3)
    assert seen == expected
    assert mine == next_draws


@pytest.mark.parametrize("stage", ["validate", "predict"])
def test_evaluation_leaves_the_generators_where_the_plain_loop_does(kit, stage):
    loader = DataLoader(kit.table(), batch_size=2, shuffle=True)
    kit.seed()
    expected = [batch[1].tolist() for batch in loader], kit.draw()
    kit.seed()
    feed = kit.make_feed(loader, stage=stage)
    assert ([batch[1].tolist() for batch in feed], kit.draw()) == expected


def test_lengths_and_samples_are_those_of_the_loader(kit):
    feed = kit.make_feed(DataLoader(kit.table(), batch_size=4), stage="fit")
    assert feed.num_batches == 3
    assert [feed.samples for _ in feed] == [4, 8, 11]
    assert feed.samples == 11, "and stay after the epoch"


def test_an_epoch_read_to_its_length_ends_the_sampler_as_a_plain_loop_does(kit):
    from itertools import islice

    generator = own()
    loader = DataLoader(kit.table(10), batch_size=2, shuffle=True, generator=generator)
    for _ in loader:
        pass
    expected = generator.get_state()
    generator.manual_seed(3)
    feed = kit.make_feed(loader, stage="fit")
    for _ in islice(feed, feed.num_batches):
        pass
    assert torch.equal(generator.get_state(), expected)


class Turning:
    """A loader that is its own iterator, and shuffles where a loop begins."""

    def __init__(self, count=6):
        self.count, self.begun = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        self.order, self.begun = iter(torch.randperm(self.count).tolist()), self.begun + 1
        return self

    def __next__(self):
        return next(self.order)


class Kept(Turning):
    """Such a loader that keeps its place itself."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        self.begun = 0


@pytest.mark.parametrize("stage", ["fit", "validate", "predict"])
@pytest.mark.parametrize("kind", [Turning, Kept])
@pytest.mark.parametrize("combined", [False, True])
def test_a_loader_that_is_its_own_iterator_begins_once_an_epoch(kit, stage, kind, combined):
    kit.seed()
    by_hand = kind()
    expected = [[*by_hand], [*by_hand], kit.draw()]
    kit.seed()
    loader = kind()
    feed = kit.make_feed(CombinedLoader({"a": loader}, "sequential") if combined else loader, stage=stage)
    values = [[item[0]["a"] if isinstance(item, tuple) else item for item in feed] for _ in range(2)]
    assert [*[[v["a"] if isinstance(v, dict) else v for v in epoch] for epoch in values], kit.draw()] == expected
    assert loader.begun == 2
