"""A stream that is shuffled in blocks goes on exactly where it was left."""

from itertools import islice

import pytest
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lt_core.errors import ConfigError, LtWarning
from lt_recipes import BlockShuffle


class Numbers(IterableDataset):
    """Yields numbers; workers share them."""

    def __init__(self, count=100):
        self.count = count

    def __iter__(self):
        worker = get_worker_info()
        yield from range(worker.id if worker else 0, self.count, worker.num_workers if worker else 1)


class Stateful(Numbers):
    """The same, and says where it stands."""

    at = read = 0

    def __iter__(self):
        start, self.at = self.at, 0
        for number in range(start, self.count):
            self.read += 1
            self.at = number + 1
            yield number
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def test_each_sample_comes_once_in_another_order_in_each_epoch():
    stream = BlockShuffle(Numbers(), size=30)
    first, again = list(stream), list(stream)
    stream.set_epoch(1)
    second = list(stream)
    assert first == again != second
    assert sorted(first) == sorted(second) == list(range(100)) != first
    assert sorted(first[:30]) == list(range(30))


@pytest.mark.filterwarnings("ignore:.*LT445")
@pytest.mark.parametrize("kind", [Numbers, Stateful])
@pytest.mark.parametrize("done", [0, 1, 29, 30, 31, 75, 99])
def test_the_rest_after_a_state_is_what_would_have_come(kind, done):
    stream, resumed = BlockShuffle(kind(), size=30), BlockShuffle(kind(), size=30)
    samples = iter(stream)
    list(islice(samples, done))
    resumed.load_state_dict(stream.state_dict())
    assert list(resumed) == list(samples)
    assert sorted(resumed) == list(range(100))  # and the epoch after it is whole


def test_a_stream_that_says_where_it_stands_reads_one_block_again():
    stream, resumed = BlockShuffle(Stateful(), size=10), BlockShuffle(Stateful(), size=10)
    list(islice(iter(stream), 75))
    resumed.load_state_dict(stream.state_dict())
    next(iter(resumed))
    assert resumed.dataset.read == 10


def test_a_stream_that_does_not_is_read_again_and_says_so():
    resumed = BlockShuffle(Numbers(), size=10)
    resumed.load_state_dict({"block": 7, "given": 5, "stream": None})
    with pytest.warns(LtWarning, match="reads 70 samples again"):
        assert len(list(resumed)) == 25


def test_workers_shuffle_their_own_parts():
    loader = DataLoader(BlockShuffle(Numbers(), size=20), batch_size=5, num_workers=2)
    batches = [batch.tolist() for batch in loader]
    assert sorted(number for batch in batches for number in batch) == list(range(100))
    assert all(len({number % 2 for number in batch}) == 1 for batch in batches)


def test_it_splits_as_its_stream_does_and_is_continued_by_the_loader():
    class Split(Numbers):
        num_shards = 2

        def shard(self, num_shards, index):
            return Numbers(self.count // num_shards)

    assert len(list(BlockShuffle(Split()).shard(num_shards=2, index=1))) == 50
    assert not hasattr(BlockShuffle(Numbers()), "shard")
    assert callable(BlockShuffle(Numbers()).state_dict)


def test_a_size_below_one_is_an_error():
    with pytest.raises(ConfigError, match="expected at least 1 sample"):
        BlockShuffle(Numbers(), size=0)


def test_persistent_workers_take_the_order_of_each_epoch():
    loader = DataLoader(BlockShuffle(Numbers(), size=20), batch_size=5, num_workers=2, persistent_workers=True)
    orders = []
    for epoch in range(2):
        loader.dataset.set_epoch(epoch)
        orders.append([batch.tolist() for batch in loader])
    fresh = DataLoader(BlockShuffle(Numbers(), size=20), batch_size=5, num_workers=2)
    fresh.dataset.set_epoch(1)
    assert orders[0] != orders[1] == [batch.tolist() for batch in fresh]
