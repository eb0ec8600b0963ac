# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import apply_to_collection as apply_to_collection
from lt_core.transfer import move_to_device as move_data_to_device

__all__ = [
    "apply_to_collection",
    "move_data_to_device",
]
