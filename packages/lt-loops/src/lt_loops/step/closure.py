"""Windows whose step runs inside a closure: optimizers that take one, and modules with their own ``optimizer_step``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS, Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from lt_core.errors import HookError
from lt_core.optimizer import LightningOptimizer
from lt_loops.run.frame import Run
from lt_loops.setup.optimizers import takes_closure
from lt_loops.state.plan import Plan
from lt_loops.step.losses import Weight, loss_and_weight, sum_weights, times
from lt_loops.step.window import Window

_NO_BATCH = object()
"""In place of a batch: the window's batches are computed already."""


class ClosureWindow(Window):
    """A window whose last micro-batch goes through ``optimizer_step(..., closure)``, hooks and clipping inside it."""

    value: Tensor | None = None
    weight: Weight | None = None

    def __init__(self, run: Run, plan: Plan, direct: bool) -> None:
        super().__init__(run, plan, direct)
        self.optimizer = plan.optimizers[0]
        alike = self.strategy.world_size > 1 and self.strategy.capabilities.lock_step
        self.compares = alike and takes_closure(self.optimizer, offered=False)
        self.proxy = LightningOptimizer(self.optimizer, self._take_step, self._toggled)

    def run_batch(self, batch: Any, index: int) -> Any:
        """Run one micro-batch, inside the closure where it is a window's last; return the training step's output."""
        position = self.position
        if batch is not _NO_BATCH:
            if not self._is_last(index):
                return self._note(super().run_batch(batch, index))
            if position.micro == 0:
                self._begin(index)
            self.unreduced = False  # the last backward reduces the whole window's
        self._calls, self.stepped, self._output = 0, False, None
        closure = partial(self._evaluate, batch, index)  # a function with a decorator would cost 4 µs in each batch
        if self.hooked_step:
            with _steps_seen() as seen:
                self.step_hook(position.epoch, index, self.proxy, closure)
            self.stepped |= bool(seen)
        else:
            self._take_step(self.optimizer, closure)
        if not self._calls:
            raise HookError(
                f"{type(self.module).__name__}.optimizer_step did not call its closure, so nothing was computed. "
                "Call optimizer.step(closure=optimizer_closure), or optimizer_closure() where no step is due.",
                code="LT305",
            )
        position.micro, self.training.partial = 0, False
        if self.stepped:
            self.training.stepped()
        output, self._output = self._output, None
        return output

    def _evaluate(self, batch: Any, index: int) -> Tensor | None:
        """Compute the gradients that a step is taken by; return the loss."""
        if not torch.is_grad_enabled():  # the step may be under no_grad, and call the closure there
            with torch.enable_grad():
                return self._evaluate(batch, index)
        if self._calls:
            if self.position.micro:
                raise HookError(
                    "The closure was called twice in one step, which accumulate_grad_batches > 1 cannot repeat "
                    "exactly. Take accumulate_grad_batches=1.",
                    code="LT305",
                )
            self.pending.begin(1.0)  # LBFGS evaluates the batch again: its loss counts once
        self._calls += 1
        if batch is not _NO_BATCH:
            self._output = self._note(self._micro(batch, index))
        self._average()
        self._prepare(self.optimizer)
        return self._mean_of_ranks() if self.compares else self.value

    def _mean_of_ranks(self) -> Tensor:
        """Return the loss of all ranks' samples: by it a line search ends on all of them, or goes on."""
        value = torch.zeros((), device=self.strategy.device) if self.value is None else self.value
        share = 0.0 if self.value is None else self.feed.weight
        weight = share if self.weight is None else self.weight if share else 0.0
        total = self.strategy.all_reduce(times(value, weight).double(), "sum")
        return times(total, 1 / sum_weights(self.strategy, weight)).to(value.dtype)

    def _note(self, output: Any) -> Any:
        """Keep the loss that the closure returns."""
        loss, self.weight = (output, None) if output.__class__ is Tensor else loss_and_weight(output)
        self.value = None if loss is None else loss.detach()
        return output

    def _finish(self, index: int) -> None:
        """Step by the gradients of a window that the end of the data cut short: its batches are computed."""
        if self.pending.counted or self.strategy.world_size > 1:
            self.run_batch(_NO_BATCH, index)
        self.position.micro = 0

    def _take_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None, **arguments: Any) -> Tensor | None:
        if closure is not None and self.precision.scales:
            closure()  # the scaler must see the gradients before it decides on the step
            closure = None
        if closure is None or self.plan.apply is not None:
            self.stepped |= self.plan.take_step(optimizer, closure, **arguments)
        else:  # directly: this closure is the way to the user's training_step
            optimizer.step(closure=closure, **arguments)
            self.stepped = True
        return self.value

    def _prepare(self, optimizer: Optimizer) -> None:
        if isinstance(optimizer, LBFGS) and not self.pending.counted:
            raise HookError(
                "training_step returned None, but LBFGS needs the loss of every batch. Return a loss, or take another "
                "optimizer.",
                code="LT304",
            )
        self.plan.prepare(optimizer)


@contextmanager
def _steps_seen() -> Iterator[list[object]]:
    """Return a context whose list gets each step of any of torch's optimizers.

    An ``optimizer_step`` may step by other ways than ``optimizer.step()``: SAM's ``second_step`` steps another
    optimizer.
    """
    seen: list[object] = []
    handle = register_optimizer_step_post_hook(lambda *step: seen.append(step))
    try:
        yield seen
    finally:
        handle.remove()
