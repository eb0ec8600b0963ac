# Written by tools/stubs.py from the table in the module beside it.

from lt_core.hparams import HyperparametersMixin as HyperparametersMixin
from lt_core.module import LightningModule as LightningModule
from lt_core.optimizer import LightningOptimizer as LightningOptimizer
from lt_data.datamodule import LightningDataModule as LightningDataModule
from lt.core import datamodule as datamodule
from lt.core import decorators as decorators
from lt.core import hooks as hooks
from lt.core import lightning as lightning
from lt.core import memory as memory
from lt.core import mixins as mixins
from lt.core import module as module
from lt.core import optimizer as optimizer
from lt.core import saving as saving

__all__ = [
    "HyperparametersMixin",
    "LightningDataModule",
    "LightningModule",
    "LightningOptimizer",
    "datamodule",
    "decorators",
    "hooks",
    "lightning",
    "memory",
    "mixins",
    "module",
    "optimizer",
    "saving",
]
