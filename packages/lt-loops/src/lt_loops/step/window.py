"""One accumulation window: micro-batches, each with forward and backward, then one step of the optimizers.

The accumulated and several plans are made of these two blocks; closure.py puts them into a closure.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from lt_core.errors import HookError
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.optimizer import LightningOptimizer
from lt_core.step import RunningStep
from lt_core.strategy import Strategy
from lt_loops.run.frame import Run
from lt_loops.setup.hooks import Hook, adapted, defines, inner
from lt_loops.state.plan import Plan, params_of
from lt_loops.step.losses import Weight, log_returned, read_losses, sum_weights, times, zero_loss


class Window(RunningStep):
    """Runs the micro-batches of a window and finishes it.

    A full window divides each loss by its size before backward, as the hand-written loop does. Where the epoch ends in
    the middle of one, it divides by the true count: known beforehand for a loader with a length, corrected on the
    gradients otherwise. With ``loss_weight`` the sum is weighted exactly, over ranks too.
    """

    def __init__(self, run: Run, plan: Plan, direct: bool) -> None:
        """Read the run; ``direct``: the strategy's wrapper is passed by, and gradients are reduced afterwards."""
        self.plan, self.direct, self.training, self.losses = plan, direct, run.training, run.losses
        self.module, self.model, self.strategy = run.module, run.model, run.strategy
        self.precision, self.feed = run.precision, run.data.ensure()
        self.agenda, self.position, self.pending = run.agenda, run.position, run.training.pending
        self.names = run.training.optimization.names
        self.params = params_of(*plan.optimizers)
        self.own = {name: params_of(o) for name, o in zip(self.names or [], plan.optimizers, strict=False)}
        self.syncs = is_overridden(self.strategy, "accumulating", Strategy) and not direct
        # a hook may end the epoch in the middle of a window; gradients of shards cannot be reduced afterwards
        self.sharded = self.strategy.capabilities.sharded_parameters
        starts = run.hooks["on_train_batch_start"] if self.sharded else ()
        self.always_syncs = any(map(_may_end_epoch, starts)) or bool(self.sharded and self.own)
        # also where this plan goes on with the window of another one
        self.unreduced = self.syncs and not self.always_syncs and self.position.micro > 0
        self.hooked_step = defines(self.module, "optimizer_step")
        self.step_hook = adapted(self.module.optimizer_step, "optimizer_step", run.job.policy)
        self.backward_to: Callable[..., None] | None = None
        self.samples = 1  # of the present micro-batch

    # ---- one micro-batch ---------------------------------------------------------------------------------------------

    def run_batch(self, batch: Any, index: int) -> Any:
        """Run one micro-batch, and the step where it completes a window; return the training step's output."""
        position = self.position
        if position.micro == 0:
            self._begin(index)
        last = self._is_last(index)
        reduces = last or self.always_syncs
        self.unreduced = self.syncs and not reduces
        with self.strategy.accumulating(self.model, reduces) if self.syncs else nullcontext():
            output = self._micro(batch, index)
        position.micro += 1
        if last:
            self._finish(index)
        self.training.partial = False
        return output

    def flush(self) -> None:
        """Finish a window that the end of the data cut short."""
        if self.position.micro:
            self._finish(self.position.batch - 1)
            self.training.partial = False

    def _is_last(self, index: int) -> bool:
        return self.position.micro + 1 >= self.agenda.window or index + 1 >= self.agenda.num_batches

    def _begin(self, index: int) -> None:
        full = self.agenda.window
        # fewer at an epoch's end; a loader that gives more than its length says has windows of one batch from there on
        self.pending.begin(float(full if self.agenda.full else max(1, min(full, self.agenda.num_batches - index))))

    def _micro(self, batch: Any, index: int) -> Any:
        plan = self.plan
        output = plan.step(batch, index) if plan.takes_index else plan.step(batch)
        log_returned(self.module, output)
        losses, weight = read_losses(output, self.names)
        if self.position.micro == 0:
            plan.clear()
        self.training.partial = True
        if not losses:
            self.losses.missing()
            if self.strategy.world_size > 1:
                # its zero gradients count, so that all ranks divide by the same number
                self.pending.counted += self.samples
                if not self.direct:
                    plan.run_backward(zero_loss(self.module))
            return output
        self.pending.counted += self.samples
        factor = self._factor(weight, self.feed.weight)
        for number, (loss, name) in enumerate(losses):
            loss = self._scaled(loss, factor)
            if name is None:
                plan.run_backward(loss)
            else:  # each optimizer's own loss reaches its own parameters only, in any graph
                self.backward_to = self.backward_to or _backward_to(self.module, self.strategy)
                backward = partial(plan.run_backward, loss, by=self.backward_to, retain_graph=number + 1 < len(losses))
                if self.sharded:
                    with _set_aside(p for other in self.own.keys() - {name} for p in self.own[other]):
                        backward()
                else:
                    backward(inputs=[p for p in self.own[name] if p.requires_grad])
        return output

    def _factor(self, weight: Weight | None, share: float) -> Weight:
        if weight is None:
            return share * self.samples / self.pending.divisor
        return self.pending.add_weight(weight if share else 0.0)  # a stand-in for no sample weighs nothing

    def _scaled(self, loss: Tensor, factor: Weight) -> Tensor:
        if isinstance(factor, Tensor):
            return times(loss, factor)
        if factor == 1.0:
            return loss
        # a product with 1/3 rounds otherwise than the division in the loop by hand
        return loss / self.pending.divisor if factor == 1.0 / self.pending.divisor else loss * factor

    # ---- the step ----------------------------------------------------------------------------------------------------

    def _finish(self, index: int) -> None:
        self.position.micro, self.training.partial = 0, True
        # of several ranks another one may have had a loss, and all step together
        if not self.pending.counted and self.strategy.world_size == 1:
            if self.agenda.full:
                self.training.stepped()
            return
        self._average()
        # a dict of losses may leave some optimizers out
        due = [o for o in self.plan.optimizers if not self.own or any(p.grad is not None for p in params_of(o))]
        stepped = False
        for optimizer in due:  # all before the first step, which changes the weights that hooks look at
            self.plan.prepare(optimizer)
        for optimizer in due:
            stepped |= self._hooked(optimizer, index) if self.hooked_step else self.plan.take_step(optimizer)
        if stepped:
            self.training.stepped()

    def _average(self) -> None:
        """Bring gradients to the window's true mean, reduced over ranks."""
        strategy = self.strategy
        if self.direct or self.unreduced:
            strategy.reduce_gradients(self.params)
            self.unreduced = False
        counted = self.pending.counted if not self.agenda.full else 0
        correction: Weight = self.pending.divisor / counted if counted else 1.0
        if self.pending.weighted:
            correction = strategy.world_size / sum_weights(strategy, self.pending.weight)
        if isinstance(correction, Tensor) or correction != 1.0:
            for gradient in [p.grad for p in self.params if p.grad is not None]:
                # of a sharded gradient (a DTensor) this rank's own part: a factor needs no talk of the ranks
                part = gradient.to_local() if hasattr(gradient, "to_local") else gradient
                part.copy_(times(part, correction)) if isinstance(correction, Tensor) else part.mul_(correction)

    def _hooked(self, optimizer: Optimizer, index: int) -> bool:
        """Step by the module's ``optimizer_step``; the gradients are there already, so its closure does nothing."""
        stepped: list[bool] = []

        def take(own: Optimizer, closure: Callable[[], Any] | None, **arguments: Any) -> Any:
            value = None if closure is None else closure()
            stepped.append(self.plan.take_step(own, **arguments))
            return value

        proxy = LightningOptimizer(optimizer, take, self._toggled)
        self.step_hook(self.position.epoch, index, proxy, lambda: None)
        return any(stepped)

    def _toggled(self, optimizer: Optimizer, sync: bool) -> AbstractContextManager[Any]:
        return self.module.toggled_optimizer(optimizer)


@contextmanager
def _set_aside(params: Iterable[Parameter]) -> Iterator[None]:
    """Give the parameters their gradients back at the end.

    Of sharded ones the graph holds what was gathered, so that ``backward(inputs=...)`` would reach none of them.
    """
    kept = [(p, p.grad) for p in params]
    for p, _ in kept:
        p.grad = None
    try:
        yield
    finally:
        for p, gradient in kept:
            p.grad = gradient


def _backward_to(module: LightningModule, strategy: Strategy) -> Callable[..., None]:
    """Return the backward for one optimizer's own loss: the module's ``backward`` if it has one."""
    if not defines(module, "backward"):
        return strategy.backward
    own = module.backward
    try:
        inspect.signature(own).bind(None, inputs=[], retain_graph=True)
    except TypeError:
        raise HookError(
            f"{type(module).__name__}.backward{inspect.signature(own)} does not fit a loss for each optimizer: its "
            "gradients must reach that optimizer's parameters only. Take and pass on what Tensor.backward takes: "
            "def backward(self, loss, *args, **kwargs): loss.backward(*args, **kwargs).",
            code="LT307",
        ) from None
    return own


def _may_end_epoch(hook: Hook) -> bool:
    """Return whether a hook may return -1: one that is annotated to return None does not."""
    return getattr(inner(hook), "__annotations__", {}).get("return", "") not in (None, "None")
