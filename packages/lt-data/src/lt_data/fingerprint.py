"""Fingerprints of batches: to see whether ranks read the same samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from torch import Tensor

from lt_core.batch import map_batch
from lt_core.errors import DataError, warn

_MOST_VALUES = 4096
"""Values of each tensor that are looked at."""


def fingerprint(batch: Any) -> str:
    """Return a short text that differs, almost surely, between batches with different values."""
    digest = hashlib.blake2b(digest_size=8)

    def look(part: Any) -> Any:
        if isinstance(part, Tensor):
            values = part.detach().reshape(-1)[:_MOST_VALUES].cpu().tolist()
            digest.update(repr((tuple(part.shape), values)).encode())
            return None
        return part

    digest.update(repr(map_batch(look, batch))[:_MOST_VALUES].encode())
    return digest.hexdigest()


def require_same(gather: Callable[[Any], list[Any]] | None, name: str) -> Callable[[str], None]:
    """Return a check that all ranks see the same first sample, or order, before each keeps its part; it works once.

    Args:
        gather: returns every rank's value; None for no check.
        name: of the source, for the error.
    """
    left = [1]

    def check(mark: str) -> None:
        if gather is None or not left:
            return
        left.clear()
        marks = gather(mark)
        if len(set(marks)) > 1:
            raise DataError(
                f"The ranks read different data from {name}, and each would keep only its part of that: samples would "
                "be lost. If it splits by rank itself, pass Trainer(use_distributed_sampler=False), or have the "
                "IterableDataset say shards_itself = True. If it shuffles, seed it the same on all ranks; in a sampler "
                "random, numpy.random and torch are.",
                code="LT452",
            )

    return check


def warn_if_same(gather: Callable[[Any], list[Any]], batch: Any, name: str) -> None:
    """Warn where two ranks that shard by themselves read the same first batch; None stands for a rank without one."""
    marks = gather(None if batch is None else fingerprint(batch))
    twins = [rank for rank, mark in enumerate(marks) if mark is not None and marks.count(mark) > 1]
    if twins and len(marks) > 1:
        warn(
            f"Ranks {', '.join(map(str, twins))} read the same first batch from {name}, which lt does not shard: each "
            "sample may be trained on several times. Shard it by rank, or leave the sharding to lt "
            "(use_distributed_sampler=True and a plain DataLoader).",
            code="LT453",
        )
