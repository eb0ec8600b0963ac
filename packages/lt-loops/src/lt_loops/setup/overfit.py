"""``overfit_batches``: the same few batches in every epoch, also from a loader that shuffles."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from lt_core.errors import warn


def in_order(loaders: Any) -> Any:
    """Return loaders, in the nest in which they came, reading their samples in order where they shuffle; warns of it.

    The user's loaders stay as they are. Those with a sampler of the user's own are left alone, and that is said.
    """
    if type(loaders) is dict:
        return {name: in_order(loader) for name, loader in loaders.items()}
    if type(loaders) in (list, tuple):
        return type(loaders)(in_order(loader) for loader in loaders)
    if not isinstance(loaders, DataLoader) or isinstance(loaders.dataset, IterableDataset):
        return loaders
    batches = loaders.batch_sampler
    # what chooses the samples: the sampler, that of a plain batch sampler, or the user's batch sampler
    chosen: Any = batches.sampler if type(batches) is BatchSampler else batches or loaders.sampler
    if type(chosen) is RandomSampler:
        warn(
            "overfit_batches reads the same batches in every epoch, and this loader shuffles: it is read with "
            "shuffle=False. Pass such a loader, or limit_train_batches=... for other batches each time.",
            code="LT406",
        )
        ordered = copy.copy(loaders)
        sampler = SequentialSampler(loaders.dataset)  # type: ignore[arg-type]
        # DataLoader refuses to have these set after it is made
        ordered.__dict__.update(sampler=sampler, _iterator=None)
        if isinstance(batches, BatchSampler):
            ordered.__dict__["batch_sampler"] = BatchSampler(sampler, batches.batch_size, batches.drop_last)
        return ordered
    if type(chosen) is not SequentialSampler:
        warn(
            f"overfit_batches reads the same batches in every epoch, and this loader has a {type(chosen).__name__} of "
            "its own, which is used as it is: where it chooses other samples in each epoch, the batches differ. Pass a "
            "loader with shuffle=False and without a sampler.",
            code="LT416",
        )
    return loaders
