"""Loaders that Lightning 2.6.6 takes, and at which lt would refuse to run: datasets, and what has no batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from lt_core.errors import warn

__all__ = ["as_loaders"]


def as_loaders(given: Any) -> Any:
    """Return loaders with each dataset read as if its samples were batches, with a warning."""
    if type(given) in (list, tuple):
        return type(given)(map(as_loaders, given))
    if isinstance(given, Mapping):
        return {name: as_loaders(one) for name, one in given.items()}
    if not isinstance(given, Dataset) or isinstance(given, IterableDataset) or not hasattr(given, "__len__"):
        return given
    warn(
        f"The dataset {type(given).__name__} stands in place of a loader, so that each of its samples is a batch. Wrap "
        "it if that is not meant: DataLoader(dataset, batch_size=32).",
        code="LT953",
    )
    return _Rows(given)


class _Rows:
    """The samples of a dataset in their order."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        return islice(self.dataset, len(self))
