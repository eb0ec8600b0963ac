# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import extract_batch_size as extract_batch_size
from lt_cli.lightning_answers import has_iterable_dataset as has_iterable_dataset
from lt_cli.lightning_answers import has_len as has_len
from lt_cli.lightning_answers import has_len_all_ranks as has_len_all_ranks
from lt_cli.lightning_answers import sized_len as sized_len
from lt_cli.lightning_answers import suggested_max_num_workers as suggested_max_num_workers

__all__ = [
    "extract_batch_size",
    "has_iterable_dataset",
    "has_len",
    "has_len_all_ranks",
    "sized_len",
    "suggested_max_num_workers",
]
