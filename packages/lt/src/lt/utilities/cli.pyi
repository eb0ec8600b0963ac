# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.argument_parser import LightningArgumentParser as LightningArgumentParser
from lt_cli.lightning_cli import LightningCLI as LightningCLI
from lt_cli.saved_config import SaveConfigCallback as SaveConfigCallback

__all__ = [
    "LightningArgumentParser",
    "LightningCLI",
    "SaveConfigCallback",
]
