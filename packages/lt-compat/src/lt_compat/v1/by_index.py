"""Several optimizers as in 1.x: ``training_step(batch, batch_idx, optimizer_idx)``, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.optim import Optimizer

from lt_core.module import LightningModule
from lt_core.step import RunningStep, Step, StepHandle

__all__ = ["ByIndex"]


@dataclass(frozen=True)
class ByIndex(Step):
    """Runs the training step once for each optimizer, with the other optimizers' parameters turned off.

    With ``frequency`` in ``configure_optimizers`` the optimizers take turns: each for so many batches in a row.
    """

    arguments: ClassVar[tuple[str, ...]] = ("optimizer_idx",)
    repeats_forward: ClassVar[bool] = True

    def fits(self, module: LightningModule, optimizers: Sequence[Optimizer], names: Sequence[str] | None) -> bool:
        """Return whether there are several optimizers without names, stepped by lt."""
        return module.automatic_optimization and len(optimizers) > 1 and names is None

    def begin(self, handle: StepHandle) -> RunningStep:
        """Begin a run."""
        return _Running(handle)


class _Running(RunningStep):
    def run_batch(self, batch: Any, index: int) -> Any:
        """Run the step for each optimizer whose turn it is; return the output, or the list of outputs."""
        handle = self.handle
        last = handle.open(index)
        outputs, stepped, had_loss = [], False, False
        for number in self._turns(index):
            optimizer = handle.optimizers[number]
            with handle.module.toggled_optimizer(optimizer):
                outputs.append(handle.call(batch, index, number))
                loss = handle.loss_of(outputs[-1])
                handle.zero(optimizer)
                if loss is not None:
                    had_loss = True
                    handle.backward(loss, optimizer)
                    if last:
                        handle.prepare(optimizer)
                        stepped |= handle.take_step(optimizer)
        handle.close(had_loss=had_loss, steps=False)
        if stepped:
            handle.stepped()
        return outputs[0] if len(outputs) == 1 else outputs

    def _turns(self, index: int) -> list[int]:
        handle = self.handle
        if handle.frequencies is None:
            return list(range(len(handle.optimizers)))
        turns = [number for number, batches in enumerate(handle.frequencies) for _ in range(batches)]
        return [turns[(handle.batches_before + index) % len(turns)]]
