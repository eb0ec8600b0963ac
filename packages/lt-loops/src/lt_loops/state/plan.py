"""The plan of a training step, and the blocks of every kind of step but the plain one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.profiler import Profiler
from lt_core.step import RunningStep

Hooks = tuple[Callable[..., Any], ...]


@dataclass(eq=False, slots=True)
class Plan:
    """Slots of callables, each None or empty unless asked for.

    The plain plan (one optimizer, a step for each batch) is inlined in ``fit.train_epoch``; every other step is
    ``running``, made of the methods here.

    Attributes:
        step: computes a batch: ``step(batch)``, or ``step(batch, batch_idx)`` where ``takes_index``.
        params: parameters whose ``grad`` is set to None directly; None where ``zero_grad`` must be called.
        zero_grad: the overridden hook or the optimizer's own way, with ``on_before_zero_grad``.
        scale: multiplies the loss before backward (GradScaler).
        backward: None for ``loss.backward()``.
        unscale, clip: called with the optimizer before its step.
        apply: takes the optimizer's step, True if it was one; None for ``optimizer.step()``.
        running: trains on a batch in place of the plain step; None for the plain one.
    """

    optimizers: list[Optimizer]
    step: Callable[..., Any] = field(init=False)
    takes_index: bool = True
    params: list[nn.Parameter] | None = None
    zero_grad: Callable[[Optimizer], None] = field(init=False)
    scale: Callable[[Tensor], Tensor] | None = None
    backward: Callable[..., None] | None = None
    unscale: Callable[[Optimizer], None] | None = None
    clip: Callable[[Optimizer], object] | None = None
    apply: Callable[..., bool] | None = None
    before_backward: Hooks = ()
    after_backward: Hooks = ()
    before_step: Hooks = ()
    running: RunningStep | None = None

    def measure(self, profiler: Profiler, apply: Callable[..., bool]) -> None:
        """Have the parts of a step measured by their names; ``apply`` takes the optimizer's step where none is set."""
        self.backward = profiler.wrap("backward", self.backward or _backward)
        self.apply = profiler.wrap("optimizer_step", self.apply or apply)
        self.zero_grad = profiler.wrap("zero_grad", self.zero_grad)
        if self.clip is not None:
            self.clip = profiler.wrap("clip_gradients", self.clip)

    def clear(self) -> None:
        """Zero all gradients."""
        if self.params is not None:
            for p in self.params:
                p.grad = None
        else:
            for optimizer in self.optimizers:
                self.zero_grad(optimizer)

    def run_backward(self, loss: Tensor, *args: Any, by: Callable[..., None] | None = None, **kwargs: Any) -> None:
        """Scale the loss and compute its gradients, with the hooks around it; ``by`` does it in place of the usual."""
        if self.scale is not None:
            loss = self.scale(loss)
        for hook in self.before_backward:
            hook(loss)
        backward = by or self.backward
        loss.backward(*args, **kwargs) if backward is None else backward(loss, *args, **kwargs)  # type: ignore[no-untyped-call]
        for hook in self.after_backward:
            hook()

    def prepare(self, optimizer: Optimizer) -> None:
        """Prepare the step by the gradients that are there: unscale, hooks, clip."""
        if self.unscale is not None:
            self.unscale(optimizer)
        for hook in self.before_step:
            hook(optimizer)
        if self.clip is not None:
            self.clip(optimizer)

    def take_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None, **arguments: Any) -> bool:
        """Step, with the user's own arguments; return whether it was a step (a scaler skips some)."""
        if self.apply is not None:
            return self.apply(optimizer, *filter(None, [closure]), **arguments)
        if closure is not None:
            optimizer.step(closure=closure, **arguments)
        else:
            optimizer.step(**arguments)
        return True


def params_of(*optimizers: Optimizer) -> list[nn.Parameter]:
    """Return the parameters that optimizers train, in their order."""
    return [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]


def with_arguments(optimizer: Optimizer, arguments: Mapping[str, Any]) -> Optimizer:
    """Return ``optimizer``, or a proxy that hands its step these arguments too."""
    return cast("Optimizer", _WithArguments(optimizer, arguments)) if arguments else optimizer


class _WithArguments:
    def __init__(self, optimizer: Optimizer, arguments: Mapping[str, Any]) -> None:
        self._optimizer, self._arguments = optimizer, arguments

    def step(self, *closure: Any, **named: Any) -> Any:
        return self._optimizer.step(*closure, **named, **self._arguments)  # type: ignore[call-overload]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def _backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
    loss.backward(*args, **kwargs)  # type: ignore[no-untyped-call]
