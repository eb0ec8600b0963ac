# Written by tools/stubs.py from the table in the module beside it.

from lt_loggers.wandb import WandbLogger as WandbLogger

__all__ = [
    "WandbLogger",
]
