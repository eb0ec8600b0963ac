"""Where a profiler is asked for: the parts of a run get the names under which they are measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from lt_core.profiler import Profiler
    from lt_loops.run.frame import Run
    from lt_loops.step.choose import Plan

__all__ = [
    "measure_slots",
    "measured_batches",
    "measured_save",
]


def measured_batches(run: Run, batches: Iterator[Any]) -> Iterator[Any]:
    """Return the batches as they are, or with the wait for each measured as ``"get_batch"``."""
    profiler = run.profiler
    return batches if profiler is None else _measured(profiler, batches)


def measure_slots(run: Run, plan: Plan) -> None:
    """Have a plan's ``backward``, ``optimizer_step``, ``zero_grad`` and ``clip_gradients`` measured by these names."""
    profiler = run.profiler
    if profiler is None:
        return
    plan.backward = profiler.wrap("backward", plan.backward or _backward)
    plan.apply = profiler.wrap("optimizer_step", plan.apply or partial(_step, run))
    plan.zero_grad = profiler.wrap("zero_grad", plan.zero_grad)
    if plan.clip is not None:
        plan.clip = profiler.wrap("clip_gradients", plan.clip)


def measured_save(run: Run) -> AbstractContextManager[Any]:
    """Return a context in which checkpoints are made and written, measured as ``"save_checkpoint"``."""
    profiler = run.profiler
    return nullcontext() if profiler is None else profiler.profile("save_checkpoint")


def _measured(profiler: Profiler, batches: Iterator[Any]) -> Iterator[Any]:
    get_batch = profiler.wrap("get_batch", batches.__next__)
    while True:
        try:
            batch = get_batch()
        except StopIteration:
            return
        yield batch
        profiler.step()


def _backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
    loss.backward(*args, **kwargs)  # type: ignore[no-untyped-call]


def _step(run: Run, optimizer: Optimizer) -> bool:
    return run.precision.step(optimizer, partial(run.strategy.optimizer_step, optimizer))
