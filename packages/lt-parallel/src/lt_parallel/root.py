"""The root of a sharded module: what its methods are called through, so that none of them is patched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule, register_fsdp_forward_method


class Root(nn.Module):
    """The outermost sharded module: its forward calls a method of the user's module, so that no method is patched."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.module, method)(*args, **kwargs)


class RootHolder:
    """Holds the root of a sharded module in the module's ``__dict__``; a copy of the module holds none.

    The root holds the module too, and both go together: a table of roots here would keep every module forever.
    """

    def __init__(self, root: Root | None = None) -> None:
        self.root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return RootHolder, ()


def root_of(module: nn.Module) -> Root | None:
    """Return the root of a module that was sharded here; it is still sharded after its run."""
    holder: RootHolder | None = module.__dict__.get("_fsdp_root")
    return None if holder is None else holder.root


def reshard(module: nn.Module) -> None:
    """Put the shards back as parameters where a forward left gathered ones."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def gathering(module: FSDPModule, method: str) -> Callable[..., Any]:
    """Return a method of a module that is sharded itself, which gathers its parameters as ``forward`` does.

    Torch hangs such a method into the module, and each time one more around it; the module gets its own one back.
    """
    own = vars(module).get(method)
    register_fsdp_forward_method(module, method)  # type: ignore[arg-type]
    gathered: Callable[..., Any] = vars(module).pop(method)
    if own is not None:
        vars(module)[method] = own
    return gathered
