"""lt on the command line: `lt fit --config run.yaml`, and LightningCLI for your own scripts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_cli.argument_parser import LightningArgumentParser, LRSchedulerTypeTuple, ReduceLROnPlateau
    from lt_cli.configured_optimizers import (
        LRSchedulerCallable,
        LRSchedulerTypeUnion,
        OptimizerCallable,
        instantiate_class,
    )
    from lt_cli.lightning_cli import ArgsType, LightningCLI
    from lt_cli.saved_config import SaveConfigCallback

__all__ = [
    "ArgsType",
    "LRSchedulerCallable",
    "LRSchedulerTypeTuple",
    "LRSchedulerTypeUnion",
    "LightningArgumentParser",
    "LightningCLI",
    "OptimizerCallable",
    "ReduceLROnPlateau",
    "SaveConfigCallback",
    "instantiate_class",
]

_HOMES = {
    "argument_parser": ("LRSchedulerTypeTuple", "LightningArgumentParser", "ReduceLROnPlateau"),
    "configured_optimizers": ("LRSchedulerCallable", "LRSchedulerTypeUnion", "OptimizerCallable", "instantiate_class"),
    "lightning_cli": ("ArgsType", "LightningCLI"),
    "saved_config": ("SaveConfigCallback",),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-cli")
    """Import a public name when it is first used: ``lt --version`` needs neither torch nor jsonargparse."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"lt_cli.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
