"""Several optimizers as in 1.x: ``training_step(batch, batch_idx, optimizer_idx)``, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from lt_core.dialect import StepKind, Window
from lt_core.module import LightningModule

__all__ = ["ByIndex"]


class ByIndex(StepKind):
    """Runs the training step once for each optimizer, with the other optimizers' parameters turned off.

    With ``frequency`` in ``configure_optimizers`` the optimizers take turns: each for so many batches in a row.

    Args:
        module: the user's.
        turns: the frequencies.
    """

    arguments: ClassVar[tuple[str, ...]] = ("optimizer_idx",)
    whole: ClassVar[bool] = True

    def __init__(self, module: LightningModule, turns: Sequence[int] | None) -> None:
        self._module, self._frequencies = module, turns

    def run_batch(self, window: Window, batch: Any, index: int) -> Any:
        """Run the step for each optimizer whose turn it is; return the output, or the list of outputs."""
        last = window.open(index)
        outputs, stepped, had_loss = [], False, False
        for number in self._turns(window, index):
            optimizer = window.optimizers[number]
            with self._module.toggled_optimizer(optimizer):
                outputs.append(window.call(batch, index, number))
                if window.backward(optimizer, outputs[-1]):
                    had_loss = True
                    stepped |= last and window.take_step(optimizer, index)
        window.close(last=last, had_loss=had_loss, stepped=stepped)
        return outputs[0] if len(outputs) == 1 else outputs

    def _turns(self, window: Window, index: int) -> list[int]:
        if self._frequencies is None:
            return list(range(len(window.optimizers)))
        place = (window.batches_before + index) % sum(self._frequencies)
        for number, batches in enumerate(self._frequencies):
            if place < batches:
                return [number]
            place -= batches
        return []
