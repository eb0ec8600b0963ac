"""lt on the command line: `lt fit --config run.yaml`, and LightningCLI for your own scripts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_cli.config.argument_parser import LightningArgumentParser, LRSchedulerTypeTuple, ReduceLROnPlateau
    from lt_cli.config.optimizers import (
        LRSchedulerCallable,
        LRSchedulerTypeUnion,
        OptimizerCallable,
        instantiate_class,
    )
    from lt_cli.config.saved import SaveConfigCallback
    from lt_cli.lightning_cli import ArgsType, LightningCLI

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
    "config.argument_parser": ("LRSchedulerTypeTuple", "LightningArgumentParser", "ReduceLROnPlateau"),
    "config.optimizers": ("LRSchedulerCallable", "LRSchedulerTypeUnion", "OptimizerCallable", "instantiate_class"),
    "lightning_cli": ("ArgsType", "LightningCLI"),
    "config.saved": ("SaveConfigCallback",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``lt --version`` needs neither torch nor jsonargparse."""
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-cli")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"lt_cli.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
