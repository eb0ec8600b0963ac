"""Whatever of a module leads to a Trainer is hidden from torch.jit."""

from __future__ import annotations

import sys


class TrainersOwn:
    """``__jit_unused_properties__``: the properties that TorchScript cannot read, since they lead to a Trainer.

    They are lt's own, and those of the user's classes that use one of them.
    """

    def __get__(self, module: object, kind: type) -> list[str]:
        ours = {name for part in kind.__mro__ if part.__module__.startswith("lt_core.") for name in vars(part)}
        found = {name: value for part in reversed(kind.__mro__) for name, value in vars(part).items()}
        getters = {name: getattr(getattr(value, "fget", None), "__code__", None) for name, value in found.items()}
        return [n for n, code in getters.items() if n in ours or (code and not ours.isdisjoint(code.co_names))]


def read_by_torch_jit() -> bool:
    """Return whether torch.jit is going through the names of a class: what has no value just then must not be there."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in ("torch.jit._recursive", "torch._jit_internal"):
            return True
    return False
