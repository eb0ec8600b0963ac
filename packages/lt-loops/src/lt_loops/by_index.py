"""Several optimizers as in 1.x: ``training_step(batch, batch_idx, optimizer_idx)``, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer

from lt_loops.step.losses import log_returned, loss_and_weight
from lt_loops.step.window import Window

if TYPE_CHECKING:
    from lt_loops.run.frame import Run
    from lt_loops.step.plan import Plan

__all__ = ["ByIndex"]


class ByIndex(Window):
    """Runs the training step once for each optimizer, with the other optimizers' parameters turned off.

    With ``frequency`` in ``configure_optimizers`` the optimizers take turns: each for so many batches in a row.
    """

    def __init__(self, run: Run, plan: Plan) -> None:
        """Prepare for the run's optimizers."""
        super().__init__(run, plan)
        self.frequencies = run.training.made.frequencies
        self.had_loss = False

    def run_batch(self, batch: Any, index: int) -> Any:
        """Run the step for each optimizer whose turn it is; return the output, or the list of outputs."""
        position = self.position
        if position.micro == 0:
            self._begin(index)
        last = self._is_last(index)
        outputs, stepped, self.had_loss = [], False, False
        for number in self._turns(index):
            optimizer = self.plan.optimizers[number]
            with self.module.toggled_optimizer(optimizer):
                output = self.plan.step(batch, index, number)
                outputs.append(output)
                stepped |= self._one(optimizer, output, index, last)
        if not self.had_loss:
            self.losses.missing()
        position.micro = 0 if last else position.micro + 1
        if stepped:
            self.training.stepped()
        return outputs[0] if len(outputs) == 1 else outputs

    def _turns(self, index: int) -> list[int]:
        if self.frequencies is None:
            return list(range(len(self.plan.optimizers)))
        place = (self.position.total_batches + index) % sum(self.frequencies)
        for number, batches in enumerate(self.frequencies):
            if place < batches:
                return [number]
            place -= batches
        return []

    def _one(self, optimizer: Optimizer, output: Any, index: int, last: bool) -> bool:
        loss, _ = loss_and_weight(output)
        log_returned(self.module, output)
        if self.position.micro == 0:
            self.plan.zero_grad(optimizer)
        if loss is None:
            return False
        self.had_loss = True
        self.plan.run_backward(self._scaled(loss, 1.0 / self.pending.divisor))
        if not last:
            return False
        if self.plan.direct or self.strategy.world_size > 1:
            params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            self.strategy.reduce_gradients(params)
        self.plan.prepare(optimizer)
        return self._hooked(optimizer, index) if self.hooked_step else self.plan.take_step(optimizer)
