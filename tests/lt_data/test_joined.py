"""Loaders that the ranks shard by themselves, and that end at different batches. Ranks are threads that meet here."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError, Lock

import pytest
import torch
from tests.patience import PATIENCE
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lt_core import DataError, LtWarning
from lt_core.strategy import Shard


class Part(IterableDataset):
    """So many numbers from ``first`` on: what one rank's dataset gives."""

    shards_itself = True

    def __init__(self, first, total):
        self.first, self.total = first, total

    def __iter__(self):
        return iter(range(self.first, self.first + self.total))


class Meeting:
    """``gather_objects`` of ranks that are threads; counts the exchanges."""

    def __init__(self, ranks):
        self.barrier, self.values, self.count = Barrier(ranks, timeout=PATIENCE), [None] * ranks, 0

    def gather(self, rank, value):
        self.values[rank] = value
        self.barrier.wait()
        told = list(self.values)
        self.count += rank == 0
        self.barrier.wait()
        return told


def on_ranks(ranks, work):
    """Return what ``work(rank, gather)`` returned on each rank, and how many exchanges there were."""
    meeting = Meeting(ranks)

    def at(rank):
        try:
            return work(rank, lambda value: meeting.gather(rank, value))
        except DataError as error:
            meeting.barrier.abort()  # as a job whose rank fails is ended
            return str(error)
        except BrokenBarrierError:
            return "ended"

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(at, range(ranks))), meeting.count


FORKING = Lock()  # ranks are processes: threads that fork at once are what filelock, which torch loads, refuses


def read(feed):
    with FORKING:
        batches = iter(feed)
    return [(batch.tolist(), feed.weight) for batch in batches]


def streams(kit, totals, workers=0, **more):
    def work(rank, gather):
        dataset = Part(10 * rank, totals[rank])
        loader = DataLoader(dataset, batch_size=2, num_workers=workers, **more)
        return kit.make_feed(loader, stage="fit", shard=Shard(rank, len(totals)), gather=gather)

    return work


@pytest.mark.parametrize("workers", [0, 1])
def test_ranks_go_on_until_the_last_one_ends_and_weigh_by_samples(kit, workers):
    make = streams(kit, [7, 3], workers)
    (first, second), _ = on_ranks(2, lambda rank, gather: read(make(rank, gather)))
    assert [batch for batch, _ in first] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [weight for _, weight in first] == [1.0, pytest.approx(4 / 3), 2.0, 2.0]
    assert second[:2] == [([10, 11], 1.0), ([12], pytest.approx(2 / 3))]
    assert [weight for _, weight in second[2:]] == [0.0, 0.0]


def test_a_rank_without_a_sample_takes_part_with_a_batch_of_another(kit):
    make = streams(kit, [0, 3, 5])
    found, _ = on_ranks(3, lambda rank, gather: read(make(rank, gather)))
    assert [batch for batch, weight in found[0]] == [[10, 11]] * 3
    assert [weight for _, weight in found[0]] == [0.0] * 3
    assert [sum(weight for _, weight in step) for step in zip(*found, strict=True)] == [3.0] * 3


def test_each_epoch_is_joined_anew(kit):
    make = streams(kit, [5, 1])

    def work(rank, gather):
        feed = make(rank, gather)
        epochs = []
        for epoch in range(2):
            feed.set_epoch(epoch)
            epochs.append(read(feed))
        return epochs

    for first, second in on_ranks(2, work)[0]:
        assert first == second
        assert len(first) == 3


@pytest.mark.filterwarnings("ignore:To continue in the middle of the epoch")
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_epoch_continues_where_ranks_had_ended_before(kit, cut):
    make = streams(kit, [7, 3])

    def work(rank, gather):
        whole = read(make(rank, gather))
        feed, begun = make(rank, gather), []
        for batch in feed:
            begun.append((batch.tolist(), feed.weight))
            if len(begun) == cut:
                state = kit.saved(feed.state_dict())
                break
        feed.close()
        again = make(rank, gather)
        again.load_state_dict(state)
        return whole, begun, read(again)

    (first, second), _ = on_ranks(2, work)
    assert first[1] + first[2] == first[0]
    assert [w for _, w in second[1] + second[2]] == [w for _, w in second[0]]
    assert (second[1] + second[2])[:2] == second[0][:2]


def test_known_lengths_are_told_once_an_epoch(kit):
    def work(rank, gather):
        loader = DataLoader(TensorDataset(torch.arange([9, 4][rank]) + 10 * rank), batch_size=2)
        feed = kit.make_feed(loader, stage="fit", gather=gather)
        assert feed.num_batches == 5
        feed.set_epoch(0)
        return [(batch[0].tolist(), feed.weight) for batch in feed]

    (first, second), exchanges = on_ranks(2, work)
    assert [weight for _, weight in first] == [1.0, 1.0, 2.0, 2.0, 2.0]
    assert [weight for _, weight in second] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert exchanges == 3  # at construction, at the epoch, and to see whether both read the same


def test_equal_lengths_are_left_as_they_are(kit):
    def work(rank, gather):
        data = TensorDataset(torch.arange(4) + 10 * rank)
        return kit.make_feed(DataLoader(data, batch_size=2), stage="fit", gather=gather).uneven

    assert on_ranks(2, work)[0] == [False, False]


def test_the_ranks_lists_of_batches_may_differ_in_length(kit):
    def work(rank, gather):
        batches = [torch.tensor([rank, rank])] * [3, 1][rank]
        return read(kit.make_feed(batches, stage="fit", gather=gather))

    (first, second), _ = on_ranks(2, work)
    assert [weight for _, weight in first] == [1.0, 2.0, 2.0]
    assert [weight for _, weight in second] == [1.0, 0.0, 0.0]


def test_an_iterable_that_gives_nothing_though_it_has_a_length_is_told(kit):
    class Liar:
        def __len__(self):
            return 3

        def __iter__(self):
            return iter(())

    def work(rank, gather):
        loader = Liar() if rank else [torch.zeros(2)] * 3
        return read(kit.make_feed(loader, stage="fit", gather=gather))

    assert "LT410" in on_ranks(2, work)[0][1]


def test_in_evaluation_a_joined_batch_counts_as_it_is(kit):
    def work(rank, gather):
        loader = DataLoader(Part(10 * rank, [3, 1][rank]), batch_size=2)
        return read(kit.make_feed(loader, stage="validate", shard=Shard(rank, 2), gather=gather, stand_ins=True))

    assert on_ranks(2, work)[0] == [[([0, 1], 1.0), ([2], 1.0)], [([10], 1.0), ([10], 0.0)]]


def test_a_stream_that_is_longer_than_it_says_is_told(kit):
    class Longer(Part):
        def __len__(self):
            return 2

    def work(rank, gather):
        return read(kit.make_feed(DataLoader(Longer(10 * rank, 6), batch_size=2), stage="fit", gather=gather))

    with pytest.warns(LtWarning, match="goes on after the 1 batches"):
        on_ranks(2, work)
