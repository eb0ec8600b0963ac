"""A feed beyond the order of its batches: transfer, time, what it needs when it is left, and how it is found."""

import time

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from lt_core import Feed, Strategy, data, plugins
from lt_core.strategy import Shard
from lt_data import CombinedLoader
from lt_data.loaders import feed as make_feed


def test_make_feed_finds_it_by_name(kit):
    assert plugins.find("data", "feed") is make_feed
    assert type(data.make_feed([1], stage="test")).__module__ == "lt_data.feed"


def test_a_transfer_gets_each_batch_when_it_is_asked_for(kit):
    calls = []

    def transfer(batch):
        calls.append(batch)
        return batch + 100

    batches = iter(kit.make_feed([1, 2], stage="fit", transfer=transfer))
    assert next(batches) == 101
    assert calls == [1], "nothing is fetched before the step"
    assert list(batches) == [102]


def test_batches_are_not_fetched_ahead_of_the_step(kit):
    class Counting(kit.Numbers):
        read = 0

        def __getitem__(self, index):
            type(self).read += 1
            return index

    for number, _ in enumerate(kit.make_feed(DataLoader(Counting(4)), stage="fit"), start=1):
        assert Counting.read == number


def test_waiting_is_judged_when_asked_for(kit):
    class Slow(kit.Numbers):
        def __getitem__(self, index):
            time.sleep(0.002)
            return index

    feed = kit.make_feed(DataLoader(Slow(49)), stage="fit")
    list(feed)
    assert feed.wait_seconds == 0.0
    feed.timed = True
    assert [batch.item() for batch in feed] == list(range(49))
    assert feed.wait_seconds > 0.05
    assert feed.read_seconds > 0.05
    assert feed.wait_hint() is None, "too short to matter"
    feed.wait_seconds, feed.read_seconds = 3.0, 60.0
    assert feed.wait_hint() is None, "a small part"
    feed.wait_seconds = 15.0
    assert "25% of the time went to waiting for fit batches. DataLoader(num_workers=2)" in feed.wait_hint()


def test_advice_names_the_setting_that_is_left(kit):
    def advice(**settings):
        return kit.make_feed(DataLoader(kit.Numbers(3), **settings), stage="fit").advice()

    assert "num_workers=2" in advice()
    assert "persistent_workers=True" in advice(num_workers=1)
    assert "prefetch_factor=2" in advice(num_workers=1, persistent_workers=True)


def test_set_epoch_reaches_samplers_and_datasets(kit):
    class Told(kit.Numbers):
        epoch = None

        def set_epoch(self, epoch):
            self.epoch = epoch

    loader = DataLoader(Told(3))
    kit.make_feed(loader, stage="fit", shard=Shard(0, 2)).set_epoch(4)
    assert loader.dataset.epoch == 4


@pytest.mark.parametrize("reader", ["lt-data's feed", "core's feed", "combined"])
def test_set_epoch_reaches_the_sampler_inside_a_batch_sampler_once(reader, kit):
    told = []

    class Told(SequentialSampler):
        def set_epoch(self, epoch):
            told.append(epoch)

    data = kit.Numbers(4)
    loader = DataLoader(data, batch_sampler=BatchSampler(Told(data), 2, drop_last=False))
    if reader == "combined":
        CombinedLoader([loader]).set_epoch(3)
    else:
        make = kit.make_feed if reader.startswith("lt") else Feed
        make(loader, stage="fit").set_epoch(3)
        make(DataLoader(data, sampler=Told(data)), stage="fit").set_epoch(4)
    assert told == ([3] if reader == "combined" else [3, 4])


def test_workers_end_with_the_feed(kit):
    import multiprocessing

    loader = DataLoader(kit.Numbers(8), num_workers=2, persistent_workers=True)
    feed = kit.make_feed(loader, stage="fit")
    list(feed)
    assert len(multiprocessing.active_children()) == 2
    feed.close()
    assert not multiprocessing.active_children()


def test_the_users_loader_is_not_changed(kit):
    loader = DataLoader(kit.Numbers(8), num_workers=2, shuffle=True)
    before = dict(vars(loader))
    list(kit.make_feed(loader, stage="fit"))
    list(kit.make_feed(loader, stage="fit", shard=Shard(0, 2)))
    assert vars(loader) == before


def test_an_iterator_that_is_left_behind_does_not_disturb_its_successor(kit):
    feed = kit.make_feed(DataLoader(kit.Numbers(4)), stage="fit")
    first = iter(feed)
    next(first)
    second = iter(feed)
    next(second), next(second)
    del first
    assert feed.state_dict()["batches"] == 2
    assert feed.batches_done == 2


def test_weights_go_back_to_one_in_the_next_epoch(kit):
    feed = kit.make_feed(DataLoader(kit.Numbers(5), 2), stage="fit", shard=Shard(1, 2))
    assert feed.uneven
    for epoch in range(2):
        feed.set_epoch(epoch)
        assert [feed.weight for _ in feed] == [1.0, 0.0]


def test_nothing_is_uneven_where_all_is_shared_evenly(kit):
    assert not kit.make_feed(DataLoader(kit.Numbers(6), 2), stage="fit", shard=Shard(1, 2)).uneven
    assert not kit.make_feed(DataLoader(kit.Numbers(5), 2, drop_last=True), stage="fit", shard=Shard(1, 2)).uneven
    assert not kit.make_feed(DataLoader(kit.Numbers(5), 2), stage="fit").uneven


def test_a_state_is_plain_data(kit):
    feed = kit.make_feed(DataLoader(kit.Owner(), 2, shuffle=True, num_workers=2), stage="fit")
    batches = iter(feed)
    next(batches)
    state = kit.saved(feed.state_dict())
    assert state["batches"] == 1
    del batches


def test_core_reads_one_process_without_lt_data(kit):
    kit.seed()
    whole = [kit.step(batch) for batch in data.Feed(DataLoader(kit.Noisy(), 2, shuffle=True), stage="fit")]
    kit.seed()
    feed = data.Feed(DataLoader(kit.Noisy(), 2, shuffle=True), stage="fit")
    batches = iter(feed)
    begun = [kit.step(next(batches)) for _ in range(2)]
    state, generators = kit.saved(feed.state_dict()), kit.capture_generators()
    del batches
    kit.seed(99)
    resumed = data.Feed(DataLoader(kit.Noisy(), 2, shuffle=True), stage="fit")
    resumed.load_state_dict(state)
    kit.restore_generators(generators)
    assert resumed.batches_done == 2
    assert begun + [kit.step(batch) for batch in resumed] == whole


def test_the_transfer_of_a_plain_strategy_on_a_cpu(kit):
    feed = kit.make_feed([torch.ones(2)], stage="fit", transfer=Strategy().to_device)
    assert [batch.tolist() for batch in feed] == [[1.0, 1.0]]


def test_persistent_workers_of_an_evaluation_end_with_the_feed(kit):
    import multiprocessing

    feed = kit.make_feed(DataLoader(kit.Numbers(4), num_workers=1, persistent_workers=True), stage="validate")
    assert list(feed) == list(feed)
    assert len(multiprocessing.active_children()) == 1
    feed.close()
    assert not multiprocessing.active_children()
