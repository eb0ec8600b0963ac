"""Names of `lightning.pytorch.utilities.data`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "extract_batch_size": "lt_cli.lightning_answers:extract_batch_size",
    "has_iterable_dataset": "lt_cli.lightning_answers:has_iterable_dataset",
    "has_len": "lt_cli.lightning_answers:has_len",
    "has_len_all_ranks": "lt_cli.lightning_answers:has_len_all_ranks",
    "sized_len": "lt_cli.lightning_answers:sized_len",
    "suggested_max_num_workers": "lt_cli.lightning_answers:suggested_max_num_workers",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
