# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import auto_move_data as auto_move_data

__all__ = [
    "auto_move_data",
]
