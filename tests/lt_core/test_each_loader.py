"""Which lists and dicts are several loaders, and which are one: the loops and lt-data ask the same function."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_core.data import each_loader, holds_loaders

one, other = (DataLoader(TensorDataset(torch.ones(4, 1)), batch_size=size) for size in (1, 2))
batches = [torch.ones(2, 1), torch.ones(2, 1)]


@pytest.mark.parametrize(
    ("given", "loaders"),
    [
        (None, []),
        ([], []),
        (one, [one]),
        ([one, other], [one, other]),
        ({"a": one, "b": [other, one]}, [one, other, one]),
        ([{"a": one}, other], [one, other]),
        (batches, [batches]),
        ([{"x": torch.ones(2)}, {"x": torch.ones(2)}], [[{"x": torch.ones(2)}, {"x": torch.ones(2)}]]),
        (["text", "text"], [["text", "text"]]),
    ],
    ids=("none", "empty", "one", "list", "dict", "nest", "batches", "batches of dicts", "texts"),
)
def test_what_users_give_is_read_as_these_loaders(given, loaders):
    found = each_loader(given)
    assert len(found) == len(loaders)
    assert all(
        mine is theirs or type(mine) is type(theirs) is list for mine, theirs in zip(found, loaders, strict=True)
    )


def test_batches_that_can_be_moved_are_no_loaders():
    class Movable:
        def __iter__(self):
            return iter([torch.ones(1)])

        def to(self, device):
            return self

    assert not holds_loaders([Movable(), Movable()])
