"""The bytes that live, while tensors change their size."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from lt_memory.fullest import Fullest


def grown():
    return torch.empty(10).resize_(1000)


def grown_by_an_operation_that_writes_to_it():
    return torch.add(torch.ones(1000), 1, out=torch.empty(0))


def grown_as_another():
    return torch.empty(10).resize_as_(torch.empty(1000))


def grown_through_a_view():
    whole = torch.empty(10)
    whole.view(5, 2).resize_(1000)
    return whole


def made():
    return torch.empty(1000)


@pytest.mark.parametrize(
    "make", [made, grown, grown_as_another, grown_through_a_view, grown_by_an_operation_that_writes_to_it]
)
def test_a_tensor_counts_with_the_size_that_it_has(make):
    with FakeTensorMode(), Fullest() as counter:
        kept = make()
        assert counter.now == 4000
        more = kept + 1 if kept.numel() == 1000 else torch.empty(1000)
        assert (counter.now, counter.most >= 8000) == (8000, True)
        del kept, more
        assert counter.now == 0


def test_a_tensor_from_before_does_not_count_when_it_grows():
    with FakeTensorMode():
        given = torch.empty(10)
        with Fullest() as counter:
            given.resize_(1000)
            assert counter.now == 0
