"""What draws random numbers while it is read is read again with the same numbers, whoever else draws too."""

import itertools

import pytest
import torch

from lt_data.resume import indices
from lt_data.resume.generators import host_state, set_host_state
from lt_data.resume.indices import Watched

NEVER = 100


class Late:
    """Sums of what it has drawn, which it does from its item ``first`` on."""

    def __init__(self, first):
        self.first = first

    def __iter__(self):
        total = 0.0
        for number in range(16):
            total += torch.rand(1).item() if number >= self.first else 0.0
            yield number + total


def read(items, begin, others_from):
    """Return the items and the states after each; something else draws after each from ``others_from`` on."""
    seen, states = [], []
    for number, item in enumerate(items, begin):
        seen.append(item)
        if number >= others_from:
            torch.rand(1)
        states.append(host_state())
    return seen, states


@pytest.mark.parametrize("others_from", [0, 3, 6, 7, 8, 12, NEVER])
@pytest.mark.parametrize("first", [0, 1, 7, NEVER])
def test_items_are_read_again_with_the_numbers_that_they_drew(first, others_from):
    torch.manual_seed(0)
    whole, states = read(Late(first), 0, others_from)
    for stop in range(1, 16):
        torch.manual_seed(0)
        watched = Watched(Late(first))
        watched.begin(born=True)
        read(itertools.islice(watched, stop), 0, others_from)
        torch.manual_seed(0)  # a reader puts back what was there before the epoch
        resumed = Watched(Late(first))
        resumed.replay(stop, watched.drawn, dict(watched.notes))
        iter(resumed)
        resumed.skip()
        set_host_state(states[stop - 1])
        assert read(resumed.rest(), stop, others_from)[0] == whole[stop:], stop


def test_where_nobody_draws_each_item_is_looked_at_once(monkeypatch):
    looks, look = [], indices.probe
    monkeypatch.setattr(indices, "probe", lambda: looks.append(1) or look())
    watched = Watched(Late(NEVER))
    read(watched, 0, NEVER)
    assert len(looks) <= 16 + 2 + 1  # twice at the first two, which show that it is quiet; once at the end
    assert watched.notes == {}
