"""Who reads which samples: pure functions of the order of an epoch and of how much of it all ranks have read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from lt_core.strategy import Shard


class Order(NamedTuple):
    """Items of an epoch, in order, of all ranks together.

    Attributes:
        items: indices of samples (a tensor of int64, shape ``(n,)``, or a range); or, where the user's batch sampler
            makes the batches, those, each a list of indices.
        size: samples in a rank's batch; 1 where the items are whole batches.
        drop_last: whether a last global batch that is not full is left out.
        batched: whether the items are whole batches.
    """

    items: Any
    size: int
    drop_last: bool = False
    batched: bool = False


class Share(NamedTuple):
    """Items of one rank in one step.

    Attributes:
        items: indices of samples (tensor, range or list); at least one, of which a stand-in is made where the rank has
        none left. weight: ``n_r * W / N``, the weight of its loss among the ranks; 0.0 for a stand-in.
    """

    items: Any
    weight: float


def num_steps(left: int, size: int, shards: int, drop_last: bool) -> int:
    """Return how many steps ``left`` items make, ``size`` in each of so many shards."""
    whole = size * shards
    return left // whole if drop_last else -(-left // whole)


def training_shares(order: Order, shard: Shard, start: int = 0) -> Iterator[Share]:
    """Yield this rank's items of each step from item ``start`` of the epoch on.

    A step takes the next ``size * count`` items and gives each rank its contiguous share; the last ones are shared so
    that sizes differ by at most 1. All ranks take the same number of steps.
    """
    index, count = shard
    whole, total = order.size * count, len(order.items)
    for step in range(num_steps(total - start, order.size, count, order.drop_last)):
        at = start + step * whole
        taken = min(whole, total - at)
        if order.batched:
            yield _share_of_batches(order.items[at : at + taken], index, count)
        elif taken == whole:
            yield Share(order.items[at + index * order.size :][: order.size], 1.0)
        else:
            yield _even_share(order.items[at : at + taken], index, count)


def evaluation_shares(order: Order, shard: Shard, stand_ins: bool = False) -> Iterator[Share]:
    """Yield every ``count``-th batch of one process's batches: together each sample once, in the very same batches.

    Args:
        order: of one process.
        shard: which rank this is.
        stand_ins: whether a rank without a batch in the last round yields a stand-in of weight 0.0.
    """
    index, count = shard
    total, size = len(order.items), order.size
    for first in range(0, _num_batches(order), count):
        at = (first + index) * size
        if at < total and not (order.drop_last and at + size > total):
            yield Share(_batch_at(order, at), 1.0)
        elif stand_ins:
            yield Share(_batch_at(order, first * size)[:1], 0.0)


def num_evaluation_batches(order: Order, shard: Shard, stand_ins: bool = False) -> int:
    """Return how many batches :func:`evaluation_shares` yields."""
    batches = _num_batches(order)
    mine = len(range(shard.index, batches, shard.count))
    return -(-batches // shard.count) if stand_ins else mine


def seed_for(seed: int, *what: object) -> int:
    """Return a seed, 0 to 2**63 - 1, for one purpose: the same on every machine, unrelated to other purposes'."""
    digest = hashlib.blake2b("/".join(map(str, (seed, *what))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _num_batches(order: Order) -> int:
    return num_steps(len(order.items), order.size, 1, order.drop_last)


def _batch_at(order: Order, at: int) -> Any:
    return list(order.items[at]) if order.batched else order.items[at : at + order.size]


def _share_of_batches(batches: Any, index: int, count: int) -> Share:
    """Return a rank's share of a round of the user's own batches: its batch; if there are fewer, its part of all."""
    total = sum(map(len, batches))
    if len(batches) == count:
        return Share(list(batches[index]), len(batches[index]) * count / total)
    return _even_share([sample for batch in batches for sample in batch], index, count)


def _even_share(items: Any, index: int, count: int) -> Share:
    total = len(items)
    base, extra = divmod(total, count)
    mine = base + (index < extra)
    at = index * base + min(index, extra)
    return Share(items[at : at + mine], mine * count / total) if mine else Share(items[:1], 0.0)
