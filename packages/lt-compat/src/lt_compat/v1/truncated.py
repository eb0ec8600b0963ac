"""Truncated back-propagation through time, as in 1.x: ``training_step(batch, batch_idx, hiddens)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from torch import Tensor
from torch.optim import Optimizer

from lt_core.batch import map_batch
from lt_core.errors import HookError
from lt_core.module import LightningModule
from lt_core.step import RunningStep, Step, StepHandle

__all__ = ["Truncated"]


@dataclass(frozen=True)
class Truncated(Step):
    """Splits each batch along time, and hands the hidden state, detached, from one part's step to the next.

    The module says ``truncated_bptt_steps = n``; it may define ``tbptt_split_batch(batch, split_size)``, by default
    tensors of shape ``(batch, time, ...)`` are cut along their second dimension. Each part has its own optimizer step.
    """

    arguments: ClassVar[tuple[str, ...]] = ("hiddens",)
    wraps: ClassVar[bool] = True
    most_steps: ClassVar[int | None] = None

    def fits(self, module: LightningModule, optimizers: Sequence[Optimizer], names: Sequence[str] | None) -> bool:
        """Return whether the module says how long a part is."""
        return bool(getattr(module, "truncated_bptt_steps", 0)) and names is None

    def begin(self, handle: StepHandle) -> RunningStep:
        """Begin a run."""
        return _Running(handle)


class _Running(RunningStep):
    _hiddens: Any = None

    def bind(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``step``, which takes ``(batch, batch_idx, hiddens)``, called with the previous part's result."""
        return partial(self._run_part, step)

    def _run_part(self, step: Callable[..., Any], batch: Any, index: int) -> Any:
        """Run one part with the hidden state of the part before."""
        output = step(batch, index, self._hiddens)
        if not isinstance(output, Mapping) or "hiddens" not in output:
            raise HookError(
                "truncated_bptt_steps needs training_step to return {'loss': ..., 'hiddens': ...}; there are no "
                f"'hiddens' in {type(output).__name__}.",
                code="LT306",
            )
        self._hiddens = map_batch(lambda part: part.detach() if isinstance(part, Tensor) else part, output["hiddens"])
        return output

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on each part of a batch in turn, up to the last step of the run; return the last output."""
        module: Any = self.handle.module
        self._hiddens = None
        output = None
        for part in getattr(module, "tbptt_split_batch", _split_batch)(batch, module.truncated_bptt_steps):
            output = self.handle.run_batch(part, index)
            if self.handle.steps_left <= 0:
                break
        return output


def _split_batch(batch: Any, size: int) -> list[Any]:
    lengths: set[int] = set()

    def measure(part: Any) -> Any:
        if isinstance(part, Tensor) and part.dim() > 1:
            lengths.add(part.shape[1])
        return part

    map_batch(measure, batch)
    if len(lengths) != 1:
        raise HookError(
            f"truncated_bptt_steps: the batch's tensors have the lengths {sorted(lengths)} along time (dimension 1). "
            "Define tbptt_split_batch(self, batch, split_size) in the module.",
            code="LT306",
        )
    length = lengths.pop()
    return [map_batch(partial(_cut, start=start, size=size), batch) for start in range(0, length, size)]


def _cut(part: Any, start: int, size: int) -> Any:
    return part[:, start : start + size] if isinstance(part, Tensor) and part.dim() > 1 else part
