"""Fabric's module, optimizer and loader: each goes through the strategy and the number format."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler

from lt_core.batch import map_batch, move_to_device
from lt_core.data import set_epoch
from lt_core.optimizer import LightningOptimizer
from lt_core.precision import Precision
from lt_core.strategy import Strategy

__all__ = ["DistributedSamplerWrapper", "FabricDataLoader", "FabricModule", "FabricOptimizer", "is_wrapped"]

_STEPS = ("training_step", "validation_step", "test_step", "predict_step")


class FabricModule(nn.Module):
    """A module whose forward goes through the strategy and computes in the number format.

    Args:
        module: the user's.
        strategy: copied, since DDP's wraps one module.
        precision: the number format.
        optimizers: over its parameters; where the strategy replaces these, the optimizers get the new ones.
        move_to_device: False leaves the module where it is.
    """

    def __init__(
        self,
        module: nn.Module,
        strategy: Strategy,
        precision: Precision,
        optimizers: Sequence[Optimizer] = (),
        move_to_device: bool = True,
    ) -> None:
        super().__init__()
        before = dict(module.named_parameters())
        self.strategy: Any = object.__new__(type(strategy))  # copy() leaves out process-local parts
        self.strategy.__dict__.update(strategy.__dict__)
        self.forward_module = _Calls(module)
        if move_to_device or not self.strategy.one_process:
            self.strategy.setup(self.forward_module, None, precision)
        now = dict(module.named_parameters())
        new = {id(param): now[name] for name, param in before.items()}
        for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
            group["params"] = [new.get(id(param), param) for param in group["params"]]
        step = self.strategy.bind(self.forward_module, "training_step")
        self.__dict__.update(_call=precision.wrap_step(step), _precision=precision, _marked={*_STEPS})

    @property
    def module(self) -> nn.Module:
        """The user's module."""
        inner: nn.Module = self.forward_module.module
        return getattr(inner, "_orig_mod", inner)  # of torch.compile

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._through("__call__", *args, **kwargs)

    def mark_forward_method(self, method: Any) -> None:
        """Have a method of the module go through the strategy too."""
        name = method if isinstance(method, str) else method.__name__
        if name == "forward" or not inspect.ismethod(getattr(self.module, name, None)):
            raise AttributeError(f"mark_forward_method({name!r}): expected another method of the module than forward.")
        self._marked.add(name)

    def _through(self, name: str, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._precision.convert_input((args, kwargs))
        mixed = self._precision.dtype if self._precision.name.endswith("-mixed") else None
        if mixed is not None:
            args, kwargs = _in_dtype((args, kwargs), mixed)
        output = self._call(name, *args, **kwargs)
        return output if self._precision.name == "32-true" else _in_dtype(output, torch.get_default_dtype())

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state dict of the user's module."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load the state dict of the user's module."""
        return self.module.load_state_dict(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Read everything else from the user's module."""
        if name in self.__dict__.get("_modules", {}):
            return super().__getattr__(name)
        bound = name in self.__dict__["_marked"] and not self.strategy.one_process  # on one device Lightning does not
        return partial(self._through, name) if bound else getattr(self.module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Write attributes of the user's module, and new ones, to the user's."""
        mine = name in ("strategy", "forward_module", "training") or "_marked" not in self.__dict__
        super().__setattr__(name, value) if mine else setattr(self.module, name, value)


class FabricOptimizer(LightningOptimizer):
    """An optimizer whose step goes through strategy and number format."""


class FabricDataLoader:
    """A loader whose batches come on the device, and whose sampler knows the epoch.

    Args:
        dataloader: torch's.
        device: where batches go; None leaves them.
    """

    def __init__(self, dataloader: DataLoader[Any], device: torch.device | None) -> None:
        self.__dict__.update(dataloader.__dict__)
        self._dataloader, self._device, self._turns = dataloader, device, 0

    def __len__(self) -> int:
        return len(self._dataloader)

    def __iter__(self) -> Iterator[Any]:
        set_epoch(self._dataloader, self._turns)
        self._turns += 1
        for batch in self._dataloader:
            yield batch if self._device is None else move_to_device(batch, self._device)


class DistributedSamplerWrapper(DistributedSampler[Any]):
    """A rank's part of another sampler's indices."""

    def __init__(self, sampler: Sampler[Any], *given: Any, **options: Any) -> None:
        super().__init__(sampler, *given, **options)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        chosen: list[Any] = list(self.dataset)  # type: ignore[call-overload]
        return iter([chosen[index] for index in super().__iter__()])


def is_wrapped(obj: object) -> bool:
    """Return whether Fabric has set an object up."""
    return isinstance(getattr(obj, "_orig_mod", obj), FabricModule | FabricOptimizer | FabricDataLoader)


class _Calls(nn.Module):
    """Holds the user's module under the name of the one method that every strategy wraps."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def training_step(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.module, name)(*args, **kwargs)


def unwrapped(value: Any) -> Any:
    if isinstance(value, FabricModule):
        return value.module
    return value.optimizer if isinstance(value, FabricOptimizer) else value


def _in_dtype(data: Any, dtype: torch.dtype) -> Any:
    def convert(item: Any) -> Any:
        return item.to(dtype) if isinstance(item, Tensor) and item.is_floating_point() else item

    return map_batch(convert, data)
