"""``CombinedLoader``: its modes by hand, and the same batches, resumed and sharded, by a feed."""

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core.errors import ConfigError, DataError
from lt_core.strategy import Shard
from lt_data import CombinedLoader
from lt_data.combined import MODES

LETTERS, NUMBERS = ["a", "b"], [0, 1, 2]

TURNS = {
    "min_size": [(["a", 0], 0, 0), (["b", 1], 1, 0)],
    "max_size": [(["a", 0], 0, 0), (["b", 1], 1, 0), ([None, 2], 2, 0)],
    "max_size_cycle": [(["a", 0], 0, 0), (["b", 1], 1, 0), (["a", 2], 2, 0)],
    "sequential": [("a", 0, 0), ("b", 1, 0), (0, 0, 1), (1, 1, 1), (2, 2, 1)],
}


@pytest.mark.parametrize("mode", TURNS)
def test_turns_of_a_mode(mode):
    combined = CombinedLoader([iter_anew(LETTERS), iter_anew(NUMBERS)], mode)
    assert list(combined) == list(combined) == TURNS[mode]
    assert len(combined) == len(TURNS[mode])


def iter_anew(items):
    class Anew:
        def __iter__(self):
            return iter(items)

        def __len__(self):
            return len(items)

    return Anew()


def test_a_weighted_mixture_reads_every_loader_to_its_end():
    combined = CombinedLoader([iter_anew(LETTERS), iter_anew(NUMBERS)], "weighted", weights=[1, 3], seed=2)
    turns = list(combined)
    assert len(turns) == len(combined)
    for number, items in enumerate((LETTERS, NUMBERS)):
        mine = [batch for batch, _, loader in turns if loader == number]
        assert mine == (items * len(mine))[: len(mine)]
        assert len(mine) >= len(items)


def test_a_weighted_mixture_is_a_function_of_seed_and_epoch():
    combined = CombinedLoader([iter_anew(range(50)), iter_anew(range(50))], "weighted")
    before = torch.get_rng_state()
    first = [loader for _, _, loader in combined]
    assert [loader for _, _, loader in combined] == first
    combined.set_epoch(1)
    assert [loader for _, _, loader in combined] != first
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_are_nested_as_the_loaders_are():
    combined = CombinedLoader({"x": iter_anew([1]), "y": [iter_anew([2]), (iter_anew([3]),)]})
    assert list(combined) == [({"x": 1, "y": [2, (3,)]}, 0, 0)]
    assert len(combined.flattened) == 3


def test_limits_of_each_loader():
    combined = CombinedLoader([iter_anew(range(6)), iter_anew(range(6))], "sequential", limits=[2, 0.5])
    assert [batch for batch, _, _ in combined] == [0, 1, 0, 1, 2]
    assert len(combined) == 5


def noisy(kit, mode):
    loaders = {
        "a": DataLoader(kit.Noisy(9), batch_size=2, shuffle=True),
        "b": [DataLoader(kit.Noisy(5), 2, shuffle=True), DataLoader(kit.table(), 4, shuffle=True)],
    }
    return CombinedLoader(loaders, mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_feed_reads_it_as_by_hand(kit, mode):
    combined, expected = noisy(kit, mode), []
    kit.seed()
    for epoch in range(2):
        combined.set_epoch(epoch)
        expected += [((epoch, index), kit.step(batch)) for index, (batch, _, _) in enumerate(combined)]
    next_draws = kit.draw()
    kit.seed()
    seen, mine, _ = kit.train(noisy(kit, mode))
    assert seen == expected
    assert mine == next_draws


@pytest.mark.parametrize("mode", MODES)
def test_it_resumes_at_every_batch(kit, mode):
    kit.assert_resumes(lambda: noisy(kit, mode))


def test_a_list_of_loaders_is_read_together_in_training(kit):
    feed = kit.make_feed([DataLoader(kit.Numbers(3)), DataLoader(kit.Numbers(1))], stage="fit")
    assert feed.num_batches == 3
    assert [kit.flat(batch) for batch in feed] == [[0, 0], [1, 0], [2, 0]]


def test_a_list_of_batches_is_one_loader(kit):
    batches = [[torch.zeros(1), torch.ones(1)], [torch.zeros(1), torch.ones(1)]]
    assert len(list(kit.make_feed(batches, stage="fit"))) == 2


def test_a_feed_tells_whose_turn_it_was(kit):
    feed = kit.make_feed(CombinedLoader([[1], [2, 3]], "sequential"), stage="test")
    assert [(batch, feed.dataloader_idx) for batch in feed] == [(1, 0), (2, 1), (3, 1)]


@pytest.mark.parametrize("mode", ["min_size", "max_size", "sequential"])
def test_its_loaders_are_sharded_each(kit, mode):
    feeds = [
        kit.make_feed(
            CombinedLoader([DataLoader(kit.Numbers(8), 2), DataLoader(kit.Numbers(6), 1)], mode),
            stage="fit",
            shard=Shard(rank, 2),
        )
        for rank in (0, 1)
    ]
    read = [list(feed) for feed in feeds]
    assert len(read[0]) == len(read[1]) == feeds[0].num_batches
    if mode == "max_size":
        halves = [[number for batch in each if batch[0] is not None for number in batch[0].tolist()] for each in read]
        assert sorted(halves[0] + halves[1]) == list(range(8))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "maxsize"}, "Did you mean 'max_size'"),
        ({"weights": [1, 2]}, "goes with mode='weighted'"),
        ({"mode": "weighted", "weights": [1]}, "expected 2 numbers"),
        ({"mode": "weighted", "weights": [1, 0]}, "numbers above 0"),
        ({"mode": "weighted", "weights": ["often", 1]}, r"weights=\['often', 1\]\): expected numbers above 0"),
        ({"mode": "weighted", "weights": [float("nan"), 1]}, "numbers above 0"),
        ({"mode": "weighted", "weights": 3}, "numbers above 0"),
        ({"limits": [1, 2, 3]}, "expected 2 numbers"),
        ({"limits": -1}, "a count of batches, a fraction from 0.0 to 1.0 or None, got -1"),
        ({"limits": 1.5}, "got 1.5"),
        ({"limits": [None, True]}, "got True"),
        ({"limits": "3"}, "expected 2 numbers"),
    ],
)
def test_wrong_arguments_are_errors(arguments, words):
    with pytest.raises(ConfigError, match=words):
        CombinedLoader([LETTERS, NUMBERS], **arguments)


@pytest.mark.parametrize("given", [None, 3, "train.csv", torch.zeros(3)])
def test_what_cannot_be_read_is_an_error(given):
    with pytest.raises(ConfigError, match="expected DataLoaders or other iterables of batches, got"):
        CombinedLoader({"letters": LETTERS, "other": given})


def test_no_loader_is_an_error():
    with pytest.raises(ConfigError, match="at least one"):
        CombinedLoader({})


def test_a_generator_cannot_start_anew():
    combined = CombinedLoader([(i for i in range(1)), iter_anew(range(3))], "max_size_cycle")
    with pytest.raises(DataError, match="generator gives no batch|generator.*gives no batch"):
        list(combined)


def test_a_length_that_is_not_known_is_none():
    combined = CombinedLoader([(i for i in range(1)), iter_anew(range(3))], "max_size")
    with pytest.raises(TypeError, match="no length"):
        len(combined)
