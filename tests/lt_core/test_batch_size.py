"""The number of samples in a batch of any nesting."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core.batch import batch_size_of, move_to_device
from lt_core.data import Feed, batch_size_at


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass
class Held:
    x: Any
    name: str = "held"


class Told:
    batch_size = 6


THREE = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (THREE, 3),
        (torch.tensor(1.0), 1),
        ([THREE, torch.ones(3)], 3),
        ((THREE, torch.ones(3)), 3),
        ({"x": THREE, "y": torch.ones(3)}, 3),
        ([THREE, "name"], 3),
        ([THREE, torch.tensor(1.0)], 3),
        ({"x": {"deep": [THREE]}, "y": None}, 3),
        (Pair(THREE, THREE), 3),
        (Held(THREE), 3),
        (Told(), 6),
        (["a", "b"], 2),
        ([], 1),
        ({}, 1),
        (None, 1),
    ],
)
def test_the_first_dimension_that_tensors_share_is_the_size(batch, size):
    assert batch_size_of(batch) == size


@pytest.mark.parametrize("batch", [[THREE, torch.ones(5)], {"x": THREE, "y": [torch.ones(5)]}])
def test_tensors_that_disagree_are_told_and_the_first_one_is_taken(batch):
    with pytest.warns(UserWarning, match=r"different first dimensions.*3.*5.*batch_size=n.*LT510"):
        assert batch_size_of(batch) == 3


@pytest.mark.parametrize("batch", [[THREE, torch.ones(5)], {"x": torch.ones(1), "y": THREE}, ["a"], object(), {}])
def test_what_is_known_counts_where_tensors_disagree_or_there_are_none(batch):
    assert batch_size_of(batch, sampled_size=lambda: 4) == 4


@pytest.mark.parametrize("batch", [THREE, [THREE, THREE], {"x": {"deep": THREE}, "y": torch.tensor(1.0)}])
def test_nothing_is_asked_where_tensors_agree(batch):
    assert batch_size_of(batch, sampled_size=lambda: pytest.fail("asked")) == 3


@pytest.mark.parametrize("samples, drop_last, sizes", [(7, False, [3, 3, 1]), (6, False, [3, 3]), (7, True, [3, 3])])
def test_cores_own_feed_knows_the_size_of_each_batch(samples, drop_last, sizes):
    feed = Feed(DataLoader(range(samples), 3, drop_last=drop_last), stage="validate")
    assert [feed.batch_size for _ in feed] == sizes
    assert batch_size_at(feed.loader, 4) is None
    assert feed.batch_size == sizes[-1]


class OwnBatches:
    """A batch sampler of the user's, whose ``batch_size`` is whatever it likes."""

    def __init__(self, batch_size):
        self.batch_size, self.sampler = batch_size, range(6)

    def __iter__(self):
        return iter([[0, 1, 2], [3, 4], [5]])


@pytest.mark.parametrize("batch_size", [3, 2.5, None, [3, 2, 1], "auto", {"long": 1}])
def test_nothing_is_known_of_the_batches_of_another_batch_sampler(batch_size):
    loader = DataLoader(range(6), batch_sampler=OwnBatches(batch_size))
    assert [batch_size_at(loader, number) for number in (1, 2, 3, 4)] == [None] * 4


@pytest.mark.parametrize("target, blocks", [("cpu", True), ("mps", True), ("cuda", False)])
def test_only_copies_to_a_device_may_be_under_way_when_the_call_is_over(target, blocks, monkeypatch):
    """From one, torch copies into pinned memory without waiting, and what is read there first is anything."""
    late = []
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device, non_blocking=False: late.append(non_blocking))
    move_to_device({"x": torch.ones(2)}, target)
    assert late == [not blocks]
