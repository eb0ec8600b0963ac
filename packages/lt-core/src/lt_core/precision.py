"""The number format of the module."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.interface import Interface

__all__ = ["Precision"]


class Precision(Interface):
    """Converts the module, gives the forward's context, scales backward and step. The default is 32 bits, untouched.

    The loops look once, before the run, at which members are overridden: one that is not costs nothing per step.
    A subclass is found by an entry point in ``lt.precision``.

    Attributes:
        name: its name in ``Trainer(precision=...)``.
        scales: True where the loss is scaled (GradScaler); closures of LBFGS are refused then.
        compute_dtype: the type to which :meth:`wrap_step` casts weights at each use (autocast's); None: they are used
            as they are. A strategy that gathers weights may gather them in it.
    """

    name: str = "32-true"
    scales: bool = False
    compute_dtype: torch.dtype | None = None
    _lt_first_state: dict[str, Any] | None = None  # that of its first fit's begin

    def open(self, device: torch.device) -> None:
        """Get to know the device; called by ``Strategy.setup`` before anything else here."""

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Return the module in this precision; in place where possible. Called before it moves to its device."""
        return module

    def init_context(self) -> AbstractContextManager[Any]:
        """Return a context in which new parameters get this precision's type (``trainer.init_module()``)."""
        return nullcontext()

    def convert_input(self, batch: Any) -> Any:
        """Return the batch with floating-point tensors in this precision's type; any nesting."""
        return batch

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``step`` computing in this precision (autocast); the very same callable where nothing is to be
        done.
        """
        return step

    def leave_step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call`` made outside of the context of :meth:`wrap_step`; ``call`` itself where there is no
        context.

        Manual optimization calls backward and the optimizers' steps so: a loop by hand ends its autocast region before
        them. Asked for before the run, outside of the step; its results may be nested.
        """
        return call

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return the loss that backward starts from; scalar, shape ``()``."""
        return loss

    def unscale(self, optimizer: Optimizer) -> None:
        """Bring the gradients of ``optimizer`` back to their true size, before hooks and clipping see them."""

    def step(self, optimizer: Optimizer, take_step: Callable[[], bool]) -> bool:
        """Take the optimizer's step by ``take_step()``; return False where it was skipped (gradients overflowed)."""
        return take_step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a resume (the scaler's scale), as plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the result of :meth:`state_dict`, before the first step."""
