# Written by tools/stubs.py from the table in the module beside it.

from lt_core.seed import seed_everything as seed_everything
from lt_loops.trainer import Trainer as Trainer
from lt.trainer import states as states
from lt.trainer import supporters as supporters
from lt.trainer import trainer as trainer

__all__ = [
    "Trainer",
    "seed_everything",
    "states",
    "supporters",
    "trainer",
]
