"""Batches by tokens: nothing lost, nothing over the budget, one order for all who know seed and epoch."""

import pytest
import torch

from lt_core.errors import ConfigError
from lt_recipes import TokenBudget

LENGTHS = torch.randint(1, 60, (500,), generator=torch.Generator().manual_seed(0)).tolist()


def tokens(batch, padded=True):
    lengths = [LENGTHS[index] for index in batch]
    return max(lengths) * len(batch) if padded else sum(lengths)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_each_sample_comes_once_and_no_batch_is_over_the_budget(padded, shuffle):
    batches = list(TokenBudget(LENGTHS, 256, padded=padded, shuffle=shuffle, bucket=100))
    assert sorted(index for batch in batches for index in batch) == list(range(500))
    assert max(tokens(batch, padded) for batch in batches) <= 256


def test_batches_are_as_full_as_they_can_be():
    for batches in (TokenBudget(LENGTHS, 256, shuffle=False), TokenBudget(LENGTHS, 256, shuffle=False, bucket=1)):
        samples = [batch[0] for batch in batches][1:]
        too_much = [[*batch, first] for batch, first in zip(batches, samples, strict=False)]
        assert batches.bucket == 1 or all(tokens(batch) > 256 for batch in too_much)
    used = sum(LENGTHS) / sum(tokens(batch) for batch in TokenBudget(LENGTHS, 256))
    by_chance = list(torch.randperm(500, generator=torch.Generator().manual_seed(1)).split(8))
    assert used > 0.9 > sum(LENGTHS) / sum(tokens(batch) for batch in by_chance)


def test_the_order_follows_from_seed_and_epoch():
    one, same, other = (
        TokenBudget(LENGTHS, 256),
        TokenBudget(torch.tensor(LENGTHS), 256),
        TokenBudget(LENGTHS, 256, seed=1),
    )
    first = list(one)
    assert list(one) == first == list(same)
    assert list(other) != first
    one.set_epoch(1)
    assert list(one) != first
    assert len(one) == len(list(one))
    one.set_epoch(0)
    assert list(one) == first


def test_a_batch_has_at_most_so_many_samples():
    assert max(map(len, TokenBudget(LENGTHS, 256, max_samples=3))) == 3


def test_what_is_too_long_is_an_error_alone_or_dropped():
    with pytest.raises(ConfigError, match=r"sample 1 has 9 tokens.*max_tokens=5.*LT418"):
        TokenBudget([2, 9, 2], 5)
    assert sorted(map(sorted, TokenBudget([2, 9, 2], 5, too_long="alone"))) == [[0, 2], [1]]
    assert sorted(map(sorted, TokenBudget([2, 9, 2], 5, too_long="drop"))) == [[0, 2]]


@pytest.mark.parametrize(
    "arguments", [{"max_tokens": 0}, {"max_tokens": 9, "bucket": 0}, {"max_tokens": 9, "too_long": "cut"}]
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ConfigError, match="expected"):
        TokenBudget([1], **arguments)
