"""LightningModule, LightningDataModule and what they are made of."""

from lt.lazy import lazy

NAMES = {
    "HyperparametersMixin": "lt_core.hparams:HyperparametersMixin",
    "LightningDataModule": "lt_data:LightningDataModule",
    "LightningModule": "lt_core.module:LightningModule",
    "LightningOptimizer": "lt_core.optimizer:LightningOptimizer",
}
"""Each name, and where it comes from."""

MODULES = (
    "datamodule",
    "decorators",
    "hooks",
    "lightning",
    "memory",
    "mixins",
    "module",
    "optimizer",
    "saving",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
