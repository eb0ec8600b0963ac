# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import garbage_collection_cuda as garbage_collection_cuda
from lt_cli.lightning_answers import is_oom_error as is_oom_error
from lt_cli.lightning_answers import recursive_detach as recursive_detach

__all__ = [
    "garbage_collection_cuda",
    "is_oom_error",
    "recursive_detach",
]
