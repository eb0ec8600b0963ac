"""A running average of a module's weights."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_avg_fn, get_swa_multi_avg_fn

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean
from lt_core.trainer import TrainerAPI

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
        present = module.state_dict(keep_vars=True)
        masks = {f"{plain}_mask" for name in present if (plain := plain_name(name, present)) != name}
        for key, tensor in present.items():
            name = plain_name(key, present)
            if not isinstance(tensor, Tensor) or key in masks:
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
        """Return the average by the names of the module's state dict as if nothing were pruned; no copies."""
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


class Ended(NamedTuple):
    """What a fit that ended left: the module has the average, and this the weights that were trained.

    Attributes:
        trained: as :meth:`AveragedWeights.tensors`, on the CPU.
        num_averaged: updates so far.
        marks: by which the module's weights are known again.
    """

    trained: dict[str, Tensor]
    num_averaged: int
    marks: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, average: AveragedWeights, trainer: TrainerAPI, module: nn.Module) -> Ended | None:
        """Give the module the average; None where the next fit has other parameters or new optimizers."""
        policy = getattr(trainer, "policy", None)
        if getattr(policy, "new_optimizers", False) or trainer.strategy.capabilities.sharded_parameters:
            average.copy_to_module()
            return None
        average.swap()
        trained = {name: tensor.cpu() for name, tensor in average.tensors().items()}  # a device's memory is freed
        return cls(trained, average.num_averaged, _marks(module))

    def take_back(self, average: AveragedWeights, module: nn.Module) -> None:
        """Let the module have the trained weights again, and ``average``, which was made of it, go on.

        Nothing where the module has not the average any more: a user who gave it other weights trains those.
        """
        if _marks(module) == self.marks:  # on the device on which they were taken, where sums are the same to the bit
            average.load(self.trained, self.num_averaged)
            average.swap()


def _marks(module: nn.Module) -> dict[str, tuple[float, float]]:
    """Return norm and sum of each parameter as it is used (masked, where pruned); a copy of the module has them too."""
    marks, state = {}, module.state_dict()
    for name, parameter in module.named_parameters():
        value, plain = parameter.detach(), plain_name(name, state)
        if plain != name:
            value = value * state[f"{plain}_mask"]
        value = (torch.view_as_real(value) if value.is_complex() else value).float()
        marks[plain] = float(value.norm()), float(value.sum())
    return marks


def plain_name(name: str, names: Container[str]) -> str:
    """Return the name of a weight as it was before ``torch.nn.utils.prune`` put it and a mask in its place."""
    plain = name.removesuffix("_orig")
    return plain if f"{plain}_mask" in names and plain not in names else name


def _alike(tensors: list[Tensor]) -> Iterator[list[int]]:
    """Yield the indices of tensors of one device and type, for functions over lists."""

    def kind(index: int) -> str:
        return f"{tensors[index].device} {tensors[index].dtype} {type(tensors[index]).__name__}"

    for _, indices in groupby(sorted(range(len(tensors)), key=kind), key=kind):
        yield list(indices)
