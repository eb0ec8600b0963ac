"""Properties of modules that are hidden from torch.jit, since they lead to a Trainer."""

from traceback import walk_stack

from lt_core import plugins


class JitUnusedProperties:
    """``__jit_unused_properties__``: properties that lead to a Trainer, which TorchScript cannot read; by lt-compat."""

    def __get__(self, module: object, kind: type) -> list[str]:
        return plugins.load("defaults", "jit_unused_properties")(kind) if read_by_torch_jit() else []


def read_by_torch_jit() -> bool:
    """Return whether torch.jit is reading the attributes of a class: missing values must raise AttributeError then."""
    readers = ("torch.jit._recursive", "torch._jit_internal")
    return any(frame.f_globals.get("__name__") in readers for frame, _ in walk_stack(None))
