"""Shards: every sample once, on any number of ranks, changed at any moment. No processes: they are functions."""

from itertools import product

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, SubsetRandomSampler

from lt_core.errors import DataError, LtWarning
from lt_core.strategy import Shard
from lt_data.shards import Order, evaluation_shares, num_evaluation_batches, num_steps, training_shares

LOADERS = {
    "in order": lambda kit, n: DataLoader(kit.Numbers(n), batch_size=2),
    "shuffled": lambda kit, n: DataLoader(kit.Numbers(n), batch_size=2, shuffle=True),
    "table": lambda kit, n: DataLoader(kit.table(n), batch_size=2, shuffle=True),
    "table in order": lambda kit, n: DataLoader(kit.table(n), batch_size=2),
    "no batches": lambda kit, n: DataLoader(kit.Numbers(n), batch_size=None),
    "own sampler": lambda kit, n: DataLoader(kit.Numbers(n), batch_size=2, sampler=SubsetRandomSampler(range(n))),
    "own batch sampler": lambda kit, n: DataLoader(kit.Numbers(n), batch_sampler=kit.Buckets(n)),
    "stream": lambda kit, n: DataLoader(kit.NumberStream(n), batch_size=2),
    "list": lambda kit, n: [torch.tensor([number]) for number in range(n)],
}
SHARED_BY_READING_ALL = ("stream", "list")


def numbers(batch):
    batch = batch[1] if isinstance(batch, list) else batch
    return torch.as_tensor(batch).reshape(-1).tolist()


def feeds_of(kit, name, total, ranks, stage="fit"):
    make = lambda rank: kit.make_feed(LOADERS[name](kit, total), stage=stage, shard=Shard(rank, ranks), seed=5)  # noqa: E731
    if name == "stream" and ranks > 1:
        with pytest.warns(LtWarning, match="LT451"):
            return [make(rank) for rank in range(ranks)]
    return [make(rank) for rank in range(ranks)]


# ---- the functions ---------------------------------------------------------------------------------------------------


def test_training_shares_read_each_item_once_whatever_happens_to_the_number_of_ranks():
    for total, drop_last in product(range(31), (False, True)):
        for before, after, steps in product((1, 2, 3, 4), (1, 2, 3), (0, 1, 3)):
            order = Order(range(total), 2, drop_last)
            first = [list(training_shares(order, Shard(rank, before)))[:steps] for rank in range(before)]
            taken = min(steps * 2 * before, total) if len(first[0]) == steps else total
            if drop_last and len(first[0]) < steps:
                continue
            rest = [list(training_shares(order, Shard(rank, after), start=taken)) for rank in range(after)]
            assert len({len(shares) for shares in rest}) == 1
            assert len(rest[0]) == num_steps(total - taken, 2, after, drop_last)
            read = [item for shares in first + rest for share in shares if share.weight for item in share.items]
            left_out = (total - taken) % (2 * after) if drop_last else 0
            assert sorted(read) == list(range(total - left_out))


def test_the_last_items_are_shared_evenly_and_weighted_by_their_number():
    shares = [list(training_shares(Order(range(10), 4), Shard(rank, 3)))[-1] for rank in range(3)]
    assert [list(share.items) for share in shares] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert [share.weight for share in shares] == pytest.approx([1.2, 0.9, 0.9])


def test_a_rank_without_items_joins_with_a_stand_in_of_weight_zero():
    shares = [list(training_shares(Order(range(4), 2), Shard(rank, 3)))[-1] for rank in range(3)]
    assert [share.weight for share in shares] == [1.5, 0.75, 0.75]
    shares = [next(training_shares(Order(range(1), 2), Shard(rank, 3))) for rank in range(3)]
    assert [(list(share.items), share.weight) for share in shares] == [([0], 3.0), ([0], 0.0), ([0], 0.0)]


def test_evaluation_shares_are_the_batches_of_one_process():
    for total, ranks, drop_last in product(range(14), (1, 2, 3), (False, True)):
        order = Order(range(total), 3, drop_last)
        one = [list(share.items) for share in evaluation_shares(order, Shard())]
        each = [[list(share.items) for share in evaluation_shares(order, Shard(r, ranks))] for r in range(ranks)]
        assert [each[i % ranks][i // ranks] for i in range(len(one))] == one
        assert [len(batches) for batches in each] == [
            num_evaluation_batches(order, Shard(r, ranks)) for r in range(ranks)
        ]


def test_stand_ins_make_the_number_of_evaluation_batches_equal():
    shares = [list(evaluation_shares(Order(range(7), 2), Shard(rank, 3), stand_ins=True)) for rank in range(3)]
    assert [[share.weight for share in each] for each in shares] == [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]


# ---- feeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("total", [13, 7, 1])
def test_training_reads_each_sample_once_in_equally_many_steps(kit, name, total):
    for ranks, epoch in product((1, 2, 3), (0, 1)):
        feeds = feeds_of(kit, name, total, ranks)
        read = []
        for feed in feeds:
            feed.set_epoch(epoch)
            read.append([(numbers(batch), feed.weight) for batch in feed])
            assert feed.num_batches in (None, len(read[-1]))
        assert len(set(map(len, read))) == 1
        assert sorted(n for batches in read for batch, weight in batches if weight for n in batch) == list(range(total))
        for step in zip(*read, strict=True):
            counts = [len(batch) if weight else 0 for batch, weight in step]
            assert [weight for _, weight in step] == pytest.approx([n * ranks / sum(counts) for n in counts])


@pytest.mark.parametrize("name", ["in order", "table in order", "no batches", "stream", "list"])
@pytest.mark.parametrize("total", [13, 7, 1, 0])
def test_evaluation_gives_the_batches_of_one_process(kit, name, total):
    stage, one = "test", [numbers(batch) for batch in feeds_of(kit, name, total, 1, "test")[0]]
    for ranks in (2, 3):
        feeds = feeds_of(kit, name, total, ranks, stage)
        read = [[numbers(batch) for batch in feed] for feed in feeds]
        assert feeds[0].in_order(read) == one
        assert sorted(n for batches in read for batch in batches for n in batch) == list(range(total))
        assert [feed.num_batches for feed in feeds] in (list(map(len, read)), [None] * ranks)


def test_the_order_is_a_function_of_seed_and_epoch_and_draws_nothing(kit):
    def order(seed, epoch):
        feed = kit.make_feed(LOADERS["shuffled"](kit, 20), stage="fit", shard=Shard(0, 2), seed=seed)
        feed.set_epoch(epoch)
        return [numbers(batch) for batch in feed]

    before = kit.capture_generators()["torch"]
    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1) != order(2, 1)
    assert torch.equal(kit.capture_generators()["torch"], before)


def test_samples_are_those_of_all_ranks(kit):
    feed = kit.make_feed(LOADERS["in order"](kit, 13), stage="fit", shard=Shard(1, 2))
    assert [feed.samples for _ in feed] == [4, 8, 12, 13]


@pytest.mark.parametrize("name", LOADERS)
def test_an_epoch_continues_on_any_number_of_ranks(kit, name):
    total = 13

    def go(ranks, states, steps):
        """Read ``steps`` steps (None: all that is left); return what was read and the states."""
        feeds = feeds_of(kit, name, total, ranks)
        for rank, feed in enumerate(feeds):
            if states is not None:
                feed.load_state_dict(states[rank] if len(states) == ranks else states[0])
        batches, done, read = [iter(feed) for feed in feeds], feeds[0].batches_done, []
        while steps is None or steps > 0:
            turn = [next(each, None) for each in batches]
            if turn[0] is None:
                assert feeds[0].num_batches in (None, done), "batches_done and num_batches belong together"
                return read, None
            done, steps = done + 1, None if steps is None else steps - 1
            read += [n for feed, batch in zip(feeds, turn, strict=True) if feed.weight for n in numbers(batch)]
        return read, [kit.saved(feed.state_dict()) for feed in feeds]

    with pytest.warns(LtWarning) if name in SHARED_BY_READING_ALL[:1] else pytest.MonkeyPatch.context():
        for first, second, third in product((1, 2, 3), repeat=3):
            kit.seed()
            a, states = go(first, None, 1)
            kit.seed(3)
            b, states = go(second, states, 1)
            kit.seed(4)
            c, _ = go(third, states, None) if states is not None else ([], None)
            assert sorted(a + b + c) == list(range(total)), (first, second, third)


def test_workers_of_a_shard_resume_exactly(kit):
    def make():
        loader = DataLoader(kit.Noisy(17), batch_size=2, shuffle=True, num_workers=2)
        return kit.make_feed(loader, stage="fit", shard=Shard(1, 2), seed=3)

    feed = make()
    whole = [kit.flat(batch) for batch in feed]
    feed = make()
    batches = iter(feed)
    begun = [kit.flat(next(batches)) for _ in range(3)]
    state = kit.saved(feed.state_dict())
    del batches
    resumed = make()
    resumed.load_state_dict(state)
    kit.seed(99)
    assert begun + [kit.flat(batch) for batch in resumed] == whole


def test_workers_of_two_ranks_draw_different_numbers(kit):
    loader = DataLoader(kit.Noisy(8), batch_size=2, num_workers=1)
    drawn = [
        {row[1].item() for batch in kit.make_feed(loader, stage="fit", shard=Shard(rank, 2)) for row in batch}
        for rank in (0, 1)
    ]
    assert not drawn[0] & drawn[1]


# ---- the user's own ways of sharding ---------------------------------------------------------------------------------


def test_a_distributed_sampler_of_the_users_is_left_alone(kit):
    data = kit.Numbers(6)
    read = []
    for rank in (0, 1):
        sampler = DistributedSampler(data, num_replicas=2, rank=rank, shuffle=False)
        feed = kit.make_feed(DataLoader(data, 2, sampler=sampler), stage="fit", shard=Shard(rank, 2))
        read.append([numbers(batch) for batch in feed])
    assert read == [[[0, 2], [4]], [[1, 3], [5]]]


@pytest.mark.parametrize("asked", ["1", "0"])
def test_workers_of_a_loader_that_shards_itself_are_seeded_by_rank_where_that_is_asked_for(kit, monkeypatch, asked):
    monkeypatch.setenv("LT_SEED_WORKERS", asked)  # as seed_everything(workers=...) leaves it
    drawn = []
    for rank in (0, 1):
        kit.seed(0)
        sampler = DistributedSampler(kit.Noisy(8), num_replicas=2, rank=rank)
        loader = DataLoader(kit.Noisy(8), batch_size=2, num_workers=1, sampler=sampler)
        feed = kit.make_feed(loader, stage="fit", shard=Shard(rank, 2))
        drawn.append({row[1].item() for batch in feed for row in batch})
    assert bool(drawn[0] & drawn[1]) == (asked == "0")


def test_a_distributed_sampler_for_another_rank_is_refused(kit):
    sampler = DistributedSampler(kit.Numbers(6), num_replicas=2, rank=0)
    with pytest.raises(DataError, match=r"rank 0 of 2; this is rank 1 of 2.*LT454"):
        kit.make_feed(DataLoader(kit.Numbers(6), sampler=sampler), stage="fit", shard=Shard(1, 2))


def test_a_distributed_sampler_that_repeats_samples_in_evaluation_is_warned_about(kit):
    sampler = DistributedSampler(kit.Numbers(7), num_replicas=2, rank=0)
    with pytest.warns(LtWarning, match="LT455"):
        kit.make_feed(DataLoader(kit.Numbers(7), sampler=sampler), stage="test", shard=Shard(0, 2))


def test_a_stream_says_how_it_splits(kit):
    class Splits(kit.NumberStream):
        def shard(self, count, index):  # whatever its arguments are called
            part = type(self)(0)
            part.numbers = list(range(index, self.total, count))
            return part

        def __iter__(self):
            return iter(self.numbers)

    read = [
        [numbers(batch) for batch in kit.make_feed(DataLoader(Splits(7), 2), stage="test", shard=Shard(rank, 2))]
        for rank in (0, 1)
    ]
    assert read == [[[0, 2], [4, 6]], [[1, 3], [5]]]


def test_a_stream_that_splits_by_itself_is_read_as_it_is(kit):
    stream = kit.NumberStream(4)
    stream.shards_itself = True
    feed = kit.make_feed(DataLoader(stream, 2), stage="test", shard=Shard(1, 2))
    assert [numbers(batch) for batch in feed] == [[0, 1], [2, 3]]


def test_a_worker_init_fn_sees_its_own_dataset(kit):
    def only_even(worker_id):
        dataset = torch.utils.data.get_worker_info().dataset
        dataset.total = dataset.total // 2

    with pytest.warns(LtWarning, match="LT451"):
        feed = kit.make_feed(
            DataLoader(kit.NumberStream(8), 1, num_workers=1, worker_init_fn=only_even), stage="test", shard=Shard(0, 2)
        )
    assert [numbers(batch) for batch in feed] == [[0], [2]]


def test_ranks_that_read_different_streams_are_an_error(kit):
    with pytest.warns(LtWarning, match="LT451"):
        feed = kit.make_feed(
            DataLoader(kit.NumberStream(8), 2), stage="fit", shard=Shard(0, 2), gather=lambda mark: [mark, "another"]
        )
    with pytest.raises(DataError, match="shards_itself = True.*LT452"):
        list(feed)


def test_ranks_that_read_the_same_samples_are_warned(kit):
    def gather(told):  # lengths, then marks of the first batches
        return [told, told if isinstance(told, tuple) else "another", told]

    feed = kit.make_feed(DataLoader(kit.Numbers(8), 2), stage="fit", gather=gather)
    with pytest.warns(LtWarning, match="Ranks 0, 2 read the same first batch.*LT453"):
        assert len(list(feed)) == 4


def test_a_sampler_without_a_length_is_refused(kit):
    class Endless(torch.utils.data.Sampler):
        def __iter__(self):
            yield from range(8)

    with pytest.raises(DataError, match="Endless has no length.*LT450"):
        kit.make_feed(DataLoader(kit.Numbers(8), sampler=Endless()), stage="fit", shard=Shard(0, 2))


def test_a_stream_whose_pieces_do_not_divide_is_read_by_all(kit):
    class Pieces(kit.NumberStream):
        num_shards = 3

        def shard(self, num_shards, index):
            raise AssertionError("not asked for")

    with pytest.warns(LtWarning, match="LT451"):
        feeds = [kit.make_feed(DataLoader(Pieces(4), 1), stage="fit", shard=Shard(rank, 2)) for rank in (0, 1)]
    assert [[numbers(batch) for batch in feed] for feed in feeds] == [[[0], [2]], [[1], [3]]]
