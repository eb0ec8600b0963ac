"""Manual optimization: the user's ``training_step`` runs backward and steps the optimizers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from lt_core.optimizer import LightningOptimizer
from lt_core.step import RunningStep
from lt_loops.run.frame import Run
from lt_loops.state.plan import Plan


class Manual(RunningStep):
    """Gives ``manual_backward`` and the optimizers' ``step`` the Trainer's scaling, clipping, syncing and counting."""

    def __init__(self, run: Run, plan: Plan, direct: bool) -> None:
        """Read the run; ``direct`` is of no matter, as the user says when to reduce gradients."""
        self.plan, self.training = plan, run.training
        self.module, self.strategy, self.precision = run.module, run.strategy, run.precision
        self.feed = run.data.ensure()
        run.position.micro = 0  # files of earlier versions may hold the middle of a window
        # training_step runs in autocast, which a loop by hand leaves before backward and step
        self.backward = run.precision.leave_step(self._backward)
        take_step = run.precision.leave_step(self._step)
        self.in_step = run.precision.wrap_step(lambda closure: closure())
        self.optimizers: Sequence[LightningOptimizer] = [
            LightningOptimizer(o, take_step, self._toggled) for o in plan.optimizers
        ]
        self.training.open_gradients = plan.optimizers
        self.syncing = True
        self.stepped, self.extra, self.agenda = False, 0, run.agenda
        run.module.__dict__["_lt_manual"] = self

    def run_batch(self, batch: Any, index: int) -> Any:
        """Run the user's step and count it as one step if any optimizer stepped, or as Lightning does."""
        plan, full = self.plan, self.agenda.full
        self.stepped, self.extra = False, full
        self.training.open_gradients = plan.optimizers
        output = plan.step(batch, index) if plan.takes_index else plan.step(batch)
        self.training.partial, self.extra = False, 0
        if self.stepped or full:
            self.training.stepped(1, -full)
        return output

    def flush(self) -> None:
        """Leave gradients that the user has not stepped by for the next epoch."""

    def _backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Weigh, scale, run backward, reduce over the ranks."""
        self.training.open_gradients, self.training.partial = self.plan.optimizers, True
        if (weight := self.feed.weight) != 1.0:
            loss = loss * weight
        self.plan.run_backward(loss, *args, **kwargs)
        if self.syncing and self.strategy.world_size > 1:
            self.strategy.reduce_gradients(self.module.parameters())  # all: ranks may have used different ones

    def _step(self, optimizer: Optimizer, closure: Callable[[], Any] | None, **arguments: Any) -> Any:
        values: list[Any] = []

        def prepared() -> Any:
            values.append(self.in_step(closure))
            self.plan.prepare(optimizer)
            return values[-1]

        own: tuple[Callable[[], Any], ...] = ()
        if closure is None:
            self.plan.prepare(optimizer)
        elif self.precision.scales:
            prepared()  # a scaler must see the gradients before it decides
        else:
            own = (prepared,)
        self.stepped |= self.plan.take_step(optimizer, *own, **arguments)
        self.training.open_gradients = [o for o in self.training.open_gradients if o is not optimizer]
        return values[0] if values else None

    @contextmanager
    def _toggled(self, optimizer: Optimizer, sync: bool) -> Iterator[None]:
        before, self.syncing = self.syncing, sync
        try:
            with self.module.toggled_optimizer(optimizer):
                yield
        finally:
            self.syncing = before
