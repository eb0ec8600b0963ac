"""One accumulation window: micro-batches, each with forward and backward, then one step of the optimizers.

The accumulated, several and closure plans are made of these two blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lt_core.errors import HookError
from lt_core.module import LightningModule
from lt_core.optimizer import LightningOptimizer
from lt_core.overrides import is_overridden
from lt_core.strategy import Strategy
from lt_loops.losses import read_losses, zero_loss
from lt_loops.schedules import step_schedulers

if TYPE_CHECKING:
    from lt_loops.plan import Plan
    from lt_loops.run import Run

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
        self.pending = run.pending

    # ---- one micro-batch ---------------------------------------------------------------------------------------------

    def run_batch(self, batch: Any, index: int) -> Any:
        """Run one micro-batch, and the step where it completes a window; return the training step's output."""
        position = self.run.position
        if position.micro == 0:
            self._begin(index)
        last = position.micro + 1 >= self.plan.window or index + 1 >= self.run.trainer.num_training_batches
        if last and self.plan.kind == "closure":
            return self._finish_by_closure(batch, index)
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

    def _begin(self, index: int) -> None:
        left = self.run.trainer.num_training_batches - index
        self.pending.begin(float(min(self.plan.window, left)))

    def _micro(self, batch: Any, index: int) -> Any:
        plan, run = self.plan, self.run
        output = plan.step(batch, index) if plan.takes_index else plan.step(batch)
        losses, weight = read_losses(run, output)
        if run.position.micro == 0:
            self._clear()
        if not losses:
            if run.strategy.world_size > 1 and not plan.direct:
                self._backward(zero_loss(run), None)
            return output
        self.pending.counted += 1
        factor = 1.0 / self.pending.divisor
        if weight is not None:
            self.pending.weighted, factor = True, weight
            self.pending.weight += weight
        feed = run.train_feed
        if feed is not None and feed.uneven:
            factor *= feed.weight
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
            loss.backward(inputs=inputs, retain_graph=keep)  # type: ignore[no-untyped-call]
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
        shared = _Once(lambda: None)
        for optimizer in self.plan.optimizers:
            self._prepare(optimizer)
        for optimizer in self.plan.optimizers:
            stepped |= self._hooked(optimizer, index, shared) if self.hooked_step else self._apply(optimizer)
        self._count(stepped)

    def _settle(self) -> None:
        """Bring gradients to the window's true mean, reduced over ranks."""
        run = self.run
        if self.plan.direct:
            run.strategy.reduce_gradients(self.params)
        correction = self.pending.divisor / self.pending.counted if self.pending.counted else 1.0
        if self.pending.weighted:
            total = torch.tensor(self.pending.weight, dtype=torch.float64, device=run.strategy.device)
            correction = run.strategy.world_size / run.strategy.all_reduce(total, "sum").item()
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

    def _count(self, stepped: bool) -> None:
        if stepped:
            self.run.position.step += 1
            step_schedulers(self.run, "step", self.run.position.step)

    # ---- closures ----------------------------------------------------------------------------------------------------

    def _finish_by_closure(self, batch: Any, index: int) -> Any:
        """Take the window's step by ``optimizer_step(..., closure)``: hooks and clipping run inside the closure."""
        optimizer = self.plan.optimizers[0]
        whole = self.run.position.micro == 0
        outputs: list[Any] = []

        def closure() -> Tensor | None:
            if outputs and not whole:
                raise HookError(
                    "The closure was called twice in one step, which accumulate_grad_batches > 1 cannot repeat exactly. Take "
                    "accumulate_grad_batches=1.",
                    code="LT305",
                )
            if whole:
                self.pending.begin(1.0)
            outputs.append(self._micro(batch, index))
            self._settle()
            self._prepare(optimizer)
            losses, _ = read_losses(self.run, outputs[-1])
            return losses[0][0].detach() if losses else None

        shared = _Once(closure)
        stepped = self._hooked(optimizer, index, shared) if self.hooked_step else self._step_with(optimizer, closure)
        if not outputs:
            raise HookError(
                f"{type(self.run.module).__name__}.optimizer_step did not call its closure, so the batch was not computed. "
                "Call optimizer.step(closure=optimizer_closure), or optimizer_closure() where no step is due.",
                code="LT305",
            )
        self.run.position.micro = 0
        self._count(stepped)
        return outputs[-1]

    def _hooked(self, optimizer: Optimizer, index: int, closure: _Once) -> bool:
        stepped: list[bool] = []

        def take(own: Optimizer, given: Callable[[], Any] | None) -> Any:
            result = self._step_with(own, given)
            stepped.append(result)
            return closure.value

        proxy = LightningOptimizer(optimizer, take, lambda own, sync: self.run.module.toggled_optimizer(own))
        self.run.module.optimizer_step(self.run.position.epoch, index, proxy, closure)
        return any(stepped)

    def _step_with(self, optimizer: Optimizer, closure: Callable[[], Any] | None) -> bool:
        if closure is None:
            return self._apply(optimizer)
        if self.run.precision.scales or self.plan.kind != "closure":
            closure()  # a scaler must see the gradients before it decides on the step
            return self._apply(optimizer)
        if self.plan.apply is not None:
            return self.run.strategy.optimizer_step(optimizer, closure)
        optimizer.step(closure)
        return True


class _Once:
    """A closure that keeps its last value, for ``optimizer.step``'s result."""

    def __init__(self, closure: Callable[[], Any]) -> None:
        self._closure, self.value = closure, None

    def __call__(self) -> Any:
        self.value = self._closure()
        return self.value
