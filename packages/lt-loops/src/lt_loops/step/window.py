"""One accumulation window: micro-batches, each with forward and backward, then one step of the optimizers.

The accumulated and several plans are made of these two blocks; closure.py puts them into a closure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim import Optimizer

from lt_core.errors import HookError
from lt_core.module import LightningModule
from lt_core.optimizer import LightningOptimizer
from lt_core.overrides import is_overridden
from lt_core.strategy import Strategy
from lt_loops.fitted import fitted
from lt_loops.run.schedulers import step_schedulers
from lt_loops.step.losses import note_no_loss, read_losses, sum_weights, zero_loss

if TYPE_CHECKING:
    from lt_loops.run.frame import Run
    from lt_loops.step.choose import Plan

__all__ = ["Window"]


class Window:
    """Runs the micro-batches of a window and finishes it.

    A full window divides each loss by its size before backward, as the hand-written loop does. Where the epoch ends in
    the middle of one, it divides by the true count: known beforehand for a loader with a length, corrected on the
    gradients otherwise. With ``loss_weight`` the sum is weighted exactly, over ranks too.
    """

    def __init__(self, run: Run, plan: Plan) -> None:
        """Look up what the micro-batches need."""
        self.run, self.plan = run, plan
        self.params = [p for o in run.optimizers for group in o.param_groups for p in group["params"]]
        self.own = {
            name: [p for group in o.param_groups for p in group["params"]]
            for name, o in zip(run.optimizer_names or [], run.optimizers, strict=False)
        }
        strategy = run.strategy
        self.syncs = is_overridden(strategy, "accumulating", Strategy) and not plan.direct
        self.hooked_step = is_overridden(run.module, "optimizer_step", LightningModule)
        self.step_hook = fitted(run.module.optimizer_step, "optimizer_step")
        self.backward_to: Callable[..., None] | None = None
        self.pending, self.ahead = run.pending, run.ahead

    # ---- one micro-batch ---------------------------------------------------------------------------------------------

    def run_batch(self, batch: Any, index: int) -> Any:
        """Run one micro-batch, and the step where it completes a window; return the training step's output."""
        position = self.run.position
        if position.micro == 0:
            self._begin(index)
        last = self._is_last(index)
        with self.run.strategy.accumulating(self.run.model, last) if self.syncs else nullcontext():
            output = self._micro(batch, index)
        position.micro += 1
        if last:
            self._finish(index)
        return output

    def flush(self) -> None:
        """Finish a window that the end of the data cut short."""
        if self.run.position.micro:
            self._finish(self.run.position.batch - 1)

    def _is_last(self, index: int) -> bool:
        return self.run.position.micro + 1 >= self.plan.window or index + 1 >= self.ahead.num_batches

    def _begin(self, index: int) -> None:
        left = self.ahead.num_batches - index
        self.pending.begin(float(min(self.plan.window, left)))

    def _micro(self, batch: Any, index: int) -> Any:
        plan, run = self.plan, self.run
        output = plan.step(batch, index) if plan.takes_index else plan.step(batch)
        losses, weight = read_losses(run, output)
        if run.position.micro == 0:
            self._clear()
        if not losses:
            note_no_loss(run)
            if run.strategy.world_size > 1:
                self.pending.counted += 1  # its zero gradients count, so that all ranks divide by the same number
                if not plan.direct:
                    self._backward(zero_loss(run), None)
            return output
        self.pending.counted += 1
        feed = run.train_feed
        share = feed.weight if feed is not None and feed.uneven else 1.0
        if weight is None:
            factor = share / self.pending.divisor
        else:
            factor = self.pending.add_weight(weight if share else 0.0)  # a stand-in for no sample weighs nothing
        for number, (loss, name) in enumerate(losses):
            self._backward(self._scaled(loss, factor), name, keep=number + 1 < len(losses))
        return output

    def _clear(self) -> None:
        if self.plan.params is not None:
            for p in self.plan.params:
                p.grad = None
        else:
            for optimizer in self.plan.optimizers:
                self.plan.zero_grad(optimizer)

    def _scaled(self, loss: Tensor, factor: float) -> Tensor:
        if factor == 1.0:
            return loss
        return loss / self.pending.divisor if factor == 1.0 / self.pending.divisor else loss * factor

    def _backward(self, loss: Tensor, name: str | None, *, keep: bool = False) -> None:
        plan = self.plan
        if plan.scale is not None:
            loss = plan.scale(loss)
        for hook in plan.before_backward:
            hook(loss)
        if name is not None:
            # each optimizer's own loss reaches its own parameters only, whatever else the graph touches
            inputs = [p for p in self.own[name] if p.requires_grad]
            self.backward_to = self.backward_to or _backward_to(self.run)
            self.backward_to(loss, inputs=inputs, retain_graph=keep)
        elif plan.backward is not None:
            plan.backward(loss)
        else:
            loss.backward()  # type: ignore[no-untyped-call]
        for hook in plan.after_backward:
            hook()

    # ---- the step ----------------------------------------------------------------------------------------------------

    def _finish(self, index: int) -> None:
        position = self.run.position
        position.micro = 0
        if not self.pending.counted and self.run.strategy.world_size == 1:
            return
        self._settle()
        stepped = False
        due = [optimizer for optimizer in self.plan.optimizers if self._has_gradients(optimizer)]
        for optimizer in due:
            self._prepare(optimizer)
        for optimizer in due:
            stepped |= self._hooked(optimizer, index) if self.hooked_step else self._apply(optimizer)
        self._count(stepped)

    def _has_gradients(self, optimizer: Optimizer) -> bool:
        """Return whether the window had a loss for this optimizer; a dict of losses may leave some out."""
        if not self.own:
            return True
        return any(p.grad is not None for group in optimizer.param_groups for p in group["params"])

    def _settle(self) -> None:
        """Bring gradients to the window's true mean, reduced over ranks."""
        run = self.run
        if self.plan.direct:
            run.strategy.reduce_gradients(self.params)
        correction = self.pending.divisor / self.pending.counted if self.pending.counted else 1.0
        if self.pending.weighted:
            correction = run.strategy.world_size / (sum_weights(run, self.pending.weight) or 1.0)
        if correction != 1.0:
            for p in self.params:
                if p.grad is not None:
                    p.grad.mul_(correction)

    def _prepare(self, optimizer: Optimizer) -> None:
        plan = self.plan
        if plan.unscale is not None:
            plan.unscale(optimizer)
        for hook in plan.before_step:
            hook(optimizer)
        if plan.clip is not None:
            plan.clip(optimizer)

    def _apply(self, optimizer: Optimizer) -> bool:
        if self.plan.apply is not None:
            return self.plan.apply(optimizer)
        optimizer.step()
        return True

    def _hooked(self, optimizer: Optimizer, index: int) -> bool:
        """Step by the module's ``optimizer_step``; the gradients are there already, so its closure does nothing."""
        stepped: list[bool] = []

        def take(own: Optimizer, closure: Callable[[], Any] | None) -> Any:
            value = None if closure is None else closure()
            stepped.append(self._apply(own))
            return value

        proxy = LightningOptimizer(optimizer, take, self._toggled)
        self.step_hook(self.run.position.epoch, index, proxy, _nothing)
        return any(stepped)

    def _toggled(self, optimizer: Optimizer, sync: bool) -> AbstractContextManager[Any]:
        return self.run.module.toggled_optimizer(optimizer)

    def _count(self, stepped: bool) -> None:
        if stepped:
            self.run.position.step += 1
            step_schedulers(self.run, "step", self.run.position.step)


def _backward_to(run: Run) -> Callable[..., None]:
    """Return what computes the gradients of one optimizer's own loss: the module's ``backward`` where it has one."""
    if not is_overridden(run.module, "backward", LightningModule):
        return run.strategy.backward
    own = run.module.backward
    try:
        inspect.signature(own).bind(None, inputs=[], retain_graph=True)
    except TypeError:
        raise HookError(
            f"{type(run.module).__name__}.backward{inspect.signature(own)} does not fit a loss for each optimizer: its "
            "gradients must reach that optimizer's parameters only. Take and pass on what Tensor.backward takes: "
            "def backward(self, loss, *args, **kwargs): loss.backward(*args, **kwargs).",
            code="LT307",
        ) from None
    return own


def _nothing() -> None:
    """Stand for the closure where there is nothing left to compute."""
