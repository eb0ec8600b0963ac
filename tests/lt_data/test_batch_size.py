"""A feed knows how many samples the sampler chose for each batch, whatever the batch has become."""

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

from lt_core.strategy import Shard
from lt_data import CombinedLoader
from lt_data.loaders import feed


class Numbers(Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(11))


class Halves:
    """A batch sampler of the user's: one sample, then two, then three..."""

    def __len__(self):
        return 4

    def __iter__(self):
        yield from ([0], [1, 2], [3, 4, 5], [6, 7, 8, 9])


class Own(BatchSampler):
    """Makes each batch one sample longer than torch's."""

    def __iter__(self):
        for batch in super().__iter__():
            yield [*batch, 10]


def keep(ids):
    return ids


LOADERS = {
    "plain": lambda **more: DataLoader(Numbers(), 4, collate_fn=keep, **more),
    "shuffled": lambda **more: DataLoader(Numbers(), 4, shuffle=True, collate_fn=keep, **more),
    "without the rest": lambda **more: DataLoader(Numbers(), 4, drop_last=True, collate_fn=keep, **more),
    "a list of batches": lambda **more: DataLoader(Numbers(), batch_sampler=[[0, 1, 2], [3]], collate_fn=keep, **more),
    "the user's sampler": lambda **more: DataLoader(Numbers(), batch_sampler=Halves(), collate_fn=keep, **more),
    "a subclass": lambda **more: DataLoader(
        Numbers(), batch_sampler=Own(SequentialSampler(range(9)), 4, False), collate_fn=keep, **more
    ),
    "of many sizes": lambda **more: DataLoader(
        Numbers(), batch_sampler=[[0, 1, 2, 3], [4, 5], [6], [7, 8, 9, 10]], collate_fn=keep, **more
    ),
}
WORKERS = {"here": {}, "workers": {"num_workers": 2}, "kept workers": {"num_workers": 2, "persistent_workers": True}}


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 2)], ids=["alone", "of two"])
@pytest.mark.parametrize("stage", ["fit", "validate", "predict"])
@pytest.mark.parametrize("where", WORKERS)
@pytest.mark.parametrize("kind", LOADERS)
def test_it_is_the_number_of_samples(kind, where, stage, shard):
    made = feed(LOADERS[kind](**WORKERS[where]), stage=stage, shard=shard)
    for epoch in range(2):
        made.set_epoch(epoch)
        sizes = [(len(batch), made.batch_size) for batch in made]
        assert sizes
        assert all(mine == told for mine, told in sizes)
    made.close()


@pytest.mark.parametrize("where", WORKERS)
@pytest.mark.parametrize("kind", LOADERS)
def test_it_is_known_after_a_resume_in_the_middle_of_an_epoch(kind, where):
    def loader():
        return LOADERS[kind](**WORKERS[where])

    torch.manual_seed(3)
    first = feed(loader(), stage="fit")
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    rest = list(batches)
    second = feed(loader(), stage="fit")
    second.load_state_dict(state)
    assert [(batch, second.batch_size) for batch in second] == [(batch, len(batch)) for batch in rest]
    first.close()
    second.close()


@pytest.mark.parametrize("mode", ["sequential", "max_size", "min_size", "max_size_cycle", "weighted"])
def test_of_several_loaders_it_is_known_where_they_agree(mode):
    loaders = [LOADERS["plain"](), LOADERS["plain"]()]
    made = feed(CombinedLoader(loaders, mode), stage="fit")
    alone = mode in ("sequential", "weighted")
    assert all(made.batch_size == len(batch if alone else batch[0]) for batch in made)


def test_of_several_loaders_it_is_unknown_where_their_batches_have_other_sizes():
    made = feed(CombinedLoader([LOADERS["plain"](), LOADERS["the user's sampler"]()], "min_size"), stage="fit")
    assert [made.batch_size for _ in made] == [None, None, 3]


@pytest.mark.parametrize(
    "loader",
    [DataLoader(Stream(), 4), DataLoader(Numbers(), batch_size=None), [[1, 2], [3]]],
    ids=["a stream", "no batches", "a list"],
)
@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_where_no_sampler_makes_batches_it_is_unknown(loader, stage):
    made = feed(loader, stage=stage)
    assert {made.batch_size for _ in made} == {None}
