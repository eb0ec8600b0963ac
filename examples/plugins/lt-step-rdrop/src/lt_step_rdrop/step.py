"""The step. Read it as an example: a frozen part with the settings, and what it begins for one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from lt_core.step import RunningStep, Step, StepHandle

__all__ = ["RDrop"]


@dataclass(frozen=True)
class RDrop(Step):
    """Trains on the losses of two forwards and on how far their predictions are apart.

    Args:
        alpha: weight of the divergence.
    """

    alpha: float = 1.0
    repeats_forward: ClassVar[bool] = True  # ranks reduce gradients after the step, and not inside a forward

    def reasons(self, handle: StepHandle) -> Iterator[str]:
        """Refuse optimizers that call ``training_step`` as often as they like."""
        for optimizer in handle.optimizers:
            if handle.needs_closure(optimizer):
                yield f"{type(optimizer).__name__} calls training_step by itself"

    def explain(self) -> str:
        """Say how a batch is trained on."""
        return f"R-Drop: two forwards a batch, and {self.alpha} times their divergence"

    def begin(self, handle: StepHandle) -> RunningStep:
        """Begin a run; there is nothing to keep."""
        return _Running(handle, self.alpha)


class _Running(RunningStep):
    def __init__(self, handle: StepHandle, alpha: float) -> None:
        super().__init__(handle)
        self._alpha = alpha

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on a batch; the output of the first forward is the step's."""
        handle = self.handle
        handle.open(index)
        first = handle.call(batch, index)
        with handle.muted():  # else each value would be logged twice
            second = handle.call(batch, index)
        losses = [handle.loss_of(first), handle.loss_of(second)]
        if losses[0] is None or losses[1] is None:  # training_step has skipped the batch
            handle.close(had_loss=False)
            return None
        apart = _divergence(_logits(first), _logits(second))
        handle.module.log("rdrop", apart.detach())
        handle.backward((losses[0] + losses[1]) / 2 + self._alpha * apart)
        handle.close()  # steps where the window of accumulate_grad_batches is complete
        return first


def _logits(output: Any) -> Tensor:
    """Return scores in 32 bits, shape ``(batch, classes)``."""
    if not isinstance(output, Mapping) or "logits" not in output:
        found = sorted(output) if isinstance(output, Mapping) else type(output).__name__
        raise TypeError(f"RDrop needs training_step to return {{'loss': ..., 'logits': ...}}, received {found}.")
    logits: Tensor = output["logits"]
    return logits.float()


def _divergence(one: Tensor, two: Tensor) -> Tensor:
    """Return the mean of both KL divergences, shape ``()``."""
    p, q = log_softmax(one, -1), log_softmax(two, -1)
    there, back = (kl_div(a, b, reduction="batchmean", log_target=True) for a, b in ((p, q), (q, p)))
    return (there + back) / 2
