"""The logged values as callbacks read and change them."""

from typing import Any

import torch
from torch import Tensor

from lt_loops.logging.metric_state import StateDict


class CallbackMetrics(dict[str, Tensor]):
    """Values as tensors; changes go on to where they came from."""

    def __init__(self, kept: StateDict) -> None:
        super().__init__({name: as_tensor(value) for name, value in kept.items()})
        self._kept = kept

    def __setitem__(self, name: str, value: Any) -> None:
        self._kept[name] = value
        super().__setitem__(name, as_tensor(value))

    def __delitem__(self, name: str) -> None:
        self._kept.pop(name, None)
        super().__delitem__(name)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def as_tensor(value: Any) -> Tensor:
    """Return a number as a tensor of no dimension; a tensor as it is."""
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
