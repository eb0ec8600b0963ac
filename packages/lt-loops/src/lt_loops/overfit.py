"""``overfit_batches``: the same few batches in every epoch, also from a loader that shuffles."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from lt_core.errors import warn

__all__ = ["in_order"]


def in_order(loader: Any) -> Any:
    """Return ``loader`` reading its samples in order where it shuffles, else as it is; warns of the difference.

    The user's loader stays as it is. Loaders with a sampler of the user's own are left alone.
    """
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, RandomSampler):
        return loader
    plain_batches = type(loader.batch_sampler) is BatchSampler
    if loader.batch_sampler is not None and not plain_batches:
        return loader
    warn(
        "overfit_batches reads the same batches in every epoch, and this loader shuffles: it is read with "
        "shuffle=False. Pass such a loader, or limit_train_batches=... for other batches each time.",
        code="LT406",
    )
    ordered = copy.copy(loader)
    sampler = SequentialSampler(loader.dataset)  # type: ignore[arg-type]
    # DataLoader refuses to have these set after it is made
    ordered.__dict__.update(sampler=sampler, _iterator=None)
    if plain_batches:
        ordered.__dict__["batch_sampler"] = BatchSampler(sampler, loader.batch_size or 1, loader.drop_last)
    return ordered
