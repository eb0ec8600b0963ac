"""Whatever of a module leads to a Trainer is hidden from torch.jit."""

from traceback import walk_stack

from lt_core import plugins


class JitUnusedProperties:
    """``__jit_unused_properties__``: those that TorchScript cannot read, as they lead to a Trainer; by lt-compat."""

    def __get__(self, module: object, kind: type) -> list[str]:
        return plugins.load("defaults", "jit_unused_properties")(kind) if read_by_torch_jit() else []


def read_by_torch_jit() -> bool:
    """Return whether torch.jit is going through the names of a class: what has no value just then must not be there."""
    readers = ("torch.jit._recursive", "torch._jit_internal")
    return any(frame.f_globals.get("__name__") in readers for frame, _ in walk_stack(None))
