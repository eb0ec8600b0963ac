"""What one device's broadcasts leave behind in the process."""

import pytest
import torch

from lt_core.strategy import SingleDevice
from lt_parallel.decisions import DECISIONS


@pytest.fixture(autouse=True)
def forgotten():
    before = dict(DECISIONS)
    DECISIONS.clear()
    yield
    DECISIONS.clear()
    DECISIONS.update(before)


def decide(strategy, value):
    return strategy.broadcast(value)


def test_broadcasts_hold_no_tensor_and_no_more_than_a_hundred_values_of_a_place():
    strategy = SingleDevice()
    for number in range(1100):
        assert decide(strategy, number) == number
        assert torch.equal(decide(strategy, torch.full((2,), number)), torch.full((2,), number))
    assert [*DECISIONS.values()] == [[*range(100)]]
