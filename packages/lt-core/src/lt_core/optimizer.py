"""Optimizers as users of manual optimization see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["LightningOptimizer"]


class ManualOptimization(Protocol):
    """The Trainer's part of a module whose ``automatic_optimization`` is False."""

    optimizers: Sequence[LightningOptimizer]

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Scale, run backward, reduce over the ranks."""


class LightningOptimizer:
    """An optimizer whose ``step`` also unscales, syncs and counts as the Trainer's own step does.

    Everything else is the optimizer's: ``param_groups``, ``state``, ``state_dict``, ``isinstance(opt, Adam)``.

    Made of an optimizer alone, it steps as that one does.

    Args:
        optimizer: torch's optimizer.
        take_step: called with the optimizer, the closure and further arguments of its own step; takes the step.
        toggled: returns the context in which only this optimizer's parameters get gradients, synced over ranks or not.
        zero: called in place of ``zero_grad``; None for the optimizer's own.
    """

    _optimizer: Optimizer
    _take_step: Callable[..., Any]
    _toggled: Callable[[Optimizer, bool], AbstractContextManager[Any]]

    def __init__(
        self,
        optimizer: Optimizer,
        take_step: Callable[..., Any] = lambda own, closure, **kwargs: own.step(closure, **kwargs),
        toggled: Callable[[Optimizer, bool], AbstractContextManager[Any]] = lambda own, sync: nullcontext(),
        zero: Callable[..., None] | None = None,
    ) -> None:
        # past __setattr__, which writes to torch's optimizer
        self.__dict__.update(_optimizer=optimizer, _take_step=take_step, _toggled=toggled)
        if zero is not None:
            self.__dict__["zero_grad"] = partial(zero, optimizer)

    @property
    def optimizer(self) -> Optimizer:
        """Torch's own optimizer."""
        return self._optimizer

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Look like torch's optimizer to ``isinstance``."""
        return type(self._optimizer)

    def __getattr__(self, name: str) -> Any:
        # from __dict__: copy and pickle ask for names before there is _optimizer, and self._optimizer would recurse
        return getattr(self.__dict__["_optimizer"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Write to torch's optimizer, except ``step``, which torch's schedulers replace."""
        if name == "step":
            self.__dict__[name] = value
        else:
            setattr(self._optimizer, name, value)

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Take a step; ``closure`` reevaluates the model and returns the loss, ``kwargs`` are the optimizer's own."""
        return self._take_step(self._optimizer, closure, **kwargs)

    def toggle_model(self, sync_grad: bool = True) -> AbstractContextManager[Any]:
        """Return a context in which only this optimizer's parameters get gradients, synced over ranks or not."""
        return self._toggled(self._optimizer, sync_grad)

    def __repr__(self) -> str:
        return repr(self._optimizer)


class Optimizers(LightningOptimizer, list[LightningOptimizer]):
    """The result of ``self.optimizers()`` for type checkers: an optimizer or a list of them, used as the one it is."""


def toggle(optimizers: Iterable[Optimizer], chosen: Optimizer | LightningOptimizer) -> list[tuple[nn.Parameter, bool]]:
    """Turn gradients off for parameters of other optimizers only; return their previous flags, to undo it."""
    mine = {id(p) for group in chosen.param_groups for p in group["params"]}
    params = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    before = [(parameter, True) for parameter in params if id(parameter) not in mine and parameter.requires_grad]
    for parameter, _ in before:
        parameter.requires_grad_(False)
    return before
