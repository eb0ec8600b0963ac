# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import get_torchvision_model as get_torchvision_model
from lt_cli.lightning_answers import is_overridden as is_overridden

__all__ = [
    "get_torchvision_model",
    "is_overridden",
]
