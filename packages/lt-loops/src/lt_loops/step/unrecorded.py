"""The optimizer's step without the record that torch makes of it for its profiler, where no profiler runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd import profiler
from torch.optim import Optimizer
from torch.optim import optimizer as hooks_of_all

_KNOWN = (
    "torch autograd profiler record_function cast Optimizer __class__ __name__ chain values isinstance tuple len "
    "RuntimeError _global_optimizer_pre_hooks _global_optimizer_post_hooks _optimizer_step_pre_hooks "
    "_optimizer_step_post_hooks _optimizer_step_code"
)
"""What torch's wrapper of ``step`` uses: a record, hooks, and a mark for the profiler. One that uses more is called."""


def unrecorded_step(optimizer: Optimizer) -> Callable[[], object] | None:
    """Return what does as ``optimizer.step()`` without torch's record of it, which costs 15 µs in a small step.

    It is ``optimizer.step()`` itself in each step in which a profiler runs, hooks are registered, or somebody has put
    another ``step`` in its place.

    Returns:
        None where ``step`` is not as torch makes it: a wrapper around it may do more than a record.
    """
    kind, own = type(optimizer), vars(optimizer)
    step: Any = getattr(kind, "step", None)
    code: Any = getattr(step, "__code__", None)
    patched = own.get("step")
    # a schedule of torch's puts a function into the optimizer, which notes that there was a step
    scheduled = getattr(patched, "_wrapped_by_lr_sched", False) and getattr(patched, "__wrapped__", None) is step
    wrapper: Any = getattr(Optimizer, "profile_hook_step", None)  # private to torch: another version may lack it
    recorded = code is not None and code in getattr(getattr(wrapper, "__code__", None), "co_consts", ())
    hooked = "_optimizer_step_pre_hooks" in own and hasattr(profiler, "_is_profiler_enabled")
    if not recorded or not hooked or not (patched is None or scheduled) or set(code.co_names) - set(_KNOWN.split()):
        return None
    bare: Callable[[Optimizer], object] = step.__wrapped__

    def take_step() -> object:
        if (
            profiler._is_profiler_enabled
            or own.get("step") is not patched
            or kind.step is not step
            or own["_optimizer_step_pre_hooks"]
            or own["_optimizer_step_post_hooks"]
            or hooks_of_all._global_optimizer_pre_hooks
            or hooks_of_all._global_optimizer_post_hooks
        ):
            return optimizer.step()
        if scheduled:
            optimizer._opt_called = True  # type: ignore[attr-defined]
        return bare(optimizer)

    return take_step
