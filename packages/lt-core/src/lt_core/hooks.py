"""The names of lt's hooks, by who may define them; docs/hooks.md shows their order."""

from lt_core._bases.callback import CallbackBase
from lt_core._bases.module import ModuleBase
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.module import LightningModule

__all__ = ["CALLBACK_HOOKS", "DATA_HOOKS", "MODULE_HOOKS"]

DATA_HOOKS: frozenset[str] = frozenset(
    n for n in vars(DataSource) if not n.startswith("_") and callable(getattr(DataSource, n))
)
"""Hooks that a module and a datamodule share."""

CALLBACK_HOOKS: frozenset[str] = frozenset(
    n for n in (*vars(CallbackBase), *vars(Callback)) if n.startswith("on_") or n in ("setup", "teardown")
)
"""Hooks of callbacks."""

MODULE_HOOKS: frozenset[str] = DATA_HOOKS | frozenset(
    n
    for n, member in (vars(ModuleBase) | vars(LightningModule)).items()
    if callable(member)  # on_gpu and global_step are properties
    and (
        n.startswith(("on_", "configure_"))
        or n.endswith("_step")
        or n in ("backward", "optimizer_zero_grad", "setup", "teardown", "forward")
    )
)
"""Hooks of a module."""
