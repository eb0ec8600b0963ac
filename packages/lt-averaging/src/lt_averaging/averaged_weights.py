"""A running average of a module's weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_avg_fn, get_swa_multi_avg_fn

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean

AverageFunction = Callable[[Tensor, Tensor, Any], Tensor]
"""Returns the new average of one weight from the average, the present weight and how many were averaged (0-dim)."""


def as_device(who: str, value: object, instead: str = "") -> torch.device | None:
    """Return the device that ``value`` names: a torch.device, a name or the number of a GPU; None stays None.

    Raises:
        ConfigError: for anything else; ``instead`` names the probable meaning.
    """
    if value is None or isinstance(value, torch.device):
        return value
    expected = f"{who}(device={value!r}): expected a device such as 'cpu' or 'cuda:0', or None."
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ConfigTypeError(f"{expected} Received a {type(value).__name__}.{instead}", code="LT182")
    try:
        return torch.device(value)
    except RuntimeError as error:
        raise ConfigError(
            f"{expected}{did_you_mean(str(value), ('cpu', 'cuda', 'mps', 'xla'))}", code="LT182"
        ) from error


class AveragedWeights:
    """Holds the average of a module's parameters and persistent buffers, without a second module.

    It averages as ``torch.optim.swa_utils.AveragedModel`` does, bit for bit, and may live on another device. Weights
    that are one tensor under two names are one here too; integer buffers (batch norm's counts) are copied.

    Args:
        module: its present weights are the first average.
        device: where the average lives; None: beside each weight.
        use_buffers: average floating-point buffers too; else they are copied.
        avg_fn: averages one tensor; default: the equal average.
        multi_avg_fn: averages lists of tensors of one device and type in place; goes before ``avg_fn``.

    Attributes:
        num_averaged: updates so far.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        device: torch.device | str | int | None = None,
        use_buffers: bool = True,
        avg_fn: AverageFunction | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
    ) -> None:
        self._names: dict[str, int] = {}
        self._live: list[Tensor] = []
        self._averaged: list[bool] = []
        seen: dict[int, int] = {}
        for name, tensor in module.state_dict(keep_vars=True).items():
            if not isinstance(tensor, Tensor):
                continue
            if id(tensor) not in seen:
                seen[id(tensor)] = len(self._live)
                self._live.append(tensor)
                floats = tensor.is_floating_point() or tensor.is_complex()
                self._averaged.append(floats and (use_buffers or isinstance(tensor, nn.Parameter)))
            self._names[name] = seen[id(tensor)]
        self._mean = [t.detach().to(device=device, copy=True) for t in self._live]
        self.num_averaged = 0
        if avg_fn is None and multi_avg_fn is None:
            if any(mean.device.type != "cpu" for mean in self._mean):
                multi_avg_fn = get_swa_multi_avg_fn()  # type: ignore[no-untyped-call]
            else:  # as torch does it there
                avg_fn = get_swa_avg_fn()  # type: ignore[no-untyped-call]
        self._avg_fn, self._multi_avg_fn = avg_fn, multi_avg_fn

    @torch.no_grad()
    def update(self) -> None:
        live = [t.detach().to(m.device) for t, m in zip(self._live, self._mean, strict=True)]
        if self.num_averaged == 0:
            for mean, present in zip(self._mean, live, strict=True):
                mean.copy_(present)
        else:
            self._lt_average(live)
        self.num_averaged += 1

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the module's weights and the average."""
        for live, mean in zip(self._live, self._mean, strict=True):
            present = live.detach().to(device=mean.device, copy=True)
            live.detach().copy_(mean)
            mean.copy_(present)

    @torch.no_grad()
    def copy_to_module(self) -> None:
        for live, mean in zip(self._live, self._mean, strict=True):
            live.detach().copy_(mean)

    def tensors(self) -> dict[str, Tensor]:
        """Return the average by the names of the module's state dict; no copies."""
        return {name: self._mean[index] for name, index in self._names.items()}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor], num_averaged: int) -> None:
        """Restore the tensors of :meth:`tensors`; names that the module lacks are skipped."""
        for name, tensor in tensors.items():
            if name in self._names:
                self._mean[self._names[name]].copy_(tensor)
        self.num_averaged = num_averaged

    def _lt_average(self, live: list[Tensor]) -> None:
        means, presents = [], []
        for mean, present, averaged in zip(self._mean, live, self._averaged, strict=True):
            if not averaged:
                mean.copy_(present)
            elif self._multi_avg_fn is None:
                assert self._avg_fn is not None
                mean.copy_(self._avg_fn(mean, present, self._count(mean.device)))
            else:
                means.append(mean)
                presents.append(present)
        for indices in _alike(means):
            assert self._multi_avg_fn is not None
            count = self._count(means[indices[0]].device)
            self._multi_avg_fn([means[i] for i in indices], [presents[i] for i in indices], count)

    def _count(self, device: torch.device) -> Tensor:
        return torch.full((), self.num_averaged, device=device)  # written there: torch.tensor() waits for its copy


def _alike(tensors: list[Tensor]) -> Iterator[list[int]]:
    """Yield the indices of tensors of one device and type, for functions over lists."""

    def kind(index: int) -> str:
        return f"{tensors[index].device} {tensors[index].dtype} {type(tensors[index]).__name__}"

    for _, indices in groupby(sorted(range(len(tensors)), key=kind), key=kind):
        yield list(indices)
