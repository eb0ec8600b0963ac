# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_demos import BoringDataModule as BoringDataModule
from lt_cli.lightning_demos import BoringModel as BoringModel
from lt_cli.lightning_demos import RandomDataset as RandomDataset
from lt.demos import boring_classes as boring_classes

__all__ = [
    "BoringDataModule",
    "BoringModel",
    "RandomDataset",
    "boring_classes",
]
