"""Batches of about as many tokens each, for samples of different lengths."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import Sampler

from lt_core.errors import ConfigError

__all__ = ["TokenBudget"]


class TokenBudget(Sampler[list[int]]):
    """Makes batches of at most ``max_tokens`` tokens: a ``batch_sampler`` for a DataLoader.

    Samples are shuffled, sorted by length within buckets, so that little is padded, and cut into batches, whose order
    is shuffled again. All of it follows from seed and epoch alone, so that a resume goes on exactly, and ranks share
    the batches of one order. How many there are differs by epoch; ``len()`` says it for the present one.

    Args:
        lengths: of each sample of the dataset, in tokens.
        max_tokens: of a batch; with ``padded``, samples times the longest of them.
        max_samples: of a batch; default: no limit.
        shuffle: False keeps the dataset's order, but for the sorting within buckets.
        bucket: samples that are sorted together; 1 sorts nothing.
        padded: whether samples are padded to the longest of a batch; False where they are packed one after another.
        too_long: treatment of a sample of more than ``max_tokens``: an ``"error"``, a batch ``"alone"``, or
            ``"drop"``.
        seed: of the order, together with the epoch.

    Raises:
        ConfigError: for a sample that is too long, a negative length, or an argument out of range.

    Example::

        batches = TokenBudget([len(text) for text in texts], max_tokens=4096)
        loader = DataLoader(dataset, batch_sampler=batches, collate_fn=pad)
    """

    def __init__(
        self,
        lengths: Sequence[int] | Tensor,
        max_tokens: int,
        *,
        max_samples: int | None = None,
        shuffle: bool = True,
        bucket: int = 1000,
        padded: bool = True,
        too_long: Literal["error", "alone", "drop"] = "error",
        seed: int = 0,
    ) -> None:
        counts = {"max_tokens": max_tokens, "bucket": bucket, "max_samples": 1 if max_samples is None else max_samples}
        for name, value in counts.items():
            if value < 1:
                raise ConfigError(f"TokenBudget({name}={value}): expected 1 or more.", code="LT417")
        if too_long not in ("error", "alone", "drop"):
            raise ConfigError(f"TokenBudget(too_long={too_long!r}): expected 'error', 'alone' or 'drop'.", code="LT417")
        self.lengths: list[int] = [int(length) for length in lengths]
        self.max_tokens, self.max_samples, self.shuffle = max_tokens, max_samples, shuffle
        self.bucket, self.padded, self.too_long, self.seed, self.epoch = bucket, padded, too_long, seed, 0
        self._lt_batches: list[list[int]] | None = None
        self._lt_check_lengths()

    def set_epoch(self, epoch: int) -> None:
        """Take the order of another epoch; a Trainer calls it."""
        if epoch != self.epoch:
            self.epoch, self._lt_batches = epoch, None

    def __len__(self) -> int:
        """Return the batches of this epoch."""
        return len(self._lt_made())

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the indices of each batch."""
        return iter(self._lt_made())

    def _lt_made(self) -> list[list[int]]:
        if self._lt_batches is None:
            digest = hashlib.blake2b(f"{self.seed}/tokens/{self.epoch}".encode(), digest_size=8).digest()
            chance = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
            kept = self._lt_order(chance)
            buckets = [kept[start : start + self.bucket] for start in range(0, len(kept), self.bucket)]
            made = [batch for bucket in buckets for batch in self._lt_cut(sorted(bucket, key=self.lengths.__getitem__))]
            again = torch.randperm(len(made), generator=chance).tolist() if self.shuffle else range(len(made))
            self._lt_batches = [made[index] for index in again]
        return self._lt_batches

    def _lt_order(self, chance: torch.Generator) -> list[int]:
        count = len(self.lengths)
        order = torch.randperm(count, generator=chance).tolist() if self.shuffle else range(count)
        return [index for index in order if self.too_long != "drop" or self.lengths[index] <= self.max_tokens]

    def _lt_cut(self, samples: list[int]) -> Iterator[list[int]]:
        """Yield batches as full as they may be, of samples from the shortest to the longest."""
        batch: list[int] = []
        tokens = 0
        for index in samples:
            length = self.lengths[index]
            full = length * (len(batch) + 1) if self.padded else tokens + length
            if batch and (full > self.max_tokens or len(batch) == self.max_samples):
                yield batch
                batch, tokens = [], 0
            batch.append(index)
            tokens += length
        if batch:
            yield batch

    def _lt_check_lengths(self) -> None:
        for index, length in enumerate(self.lengths):
            if length < 0:
                raise ConfigError(f"TokenBudget: sample {index} has the length {length}.", code="LT418")
            if length > self.max_tokens and self.too_long == "error":
                raise ConfigError(
                    f"TokenBudget: sample {index} has {length} tokens, and a batch at most max_tokens="
                    f"{self.max_tokens}. Raise max_tokens, shorten the sample, or say too_long='alone' (a batch of "
                    "its own) or 'drop'.",
                    code="LT418",
                )
