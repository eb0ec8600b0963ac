# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import extract_batch_size as extract_batch_size
from lt_cli.lightning_answers import has_len as has_len
from lt_cli.lightning_answers import suggested_max_num_workers as suggested_max_num_workers

__all__ = [
    "extract_batch_size",
    "has_len",
    "suggested_max_num_workers",
]
