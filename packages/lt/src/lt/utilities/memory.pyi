# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import garbage_collection_cuda as garbage_collection_cuda
from lt_cli.lightning_answers import is_cuda_out_of_memory as is_cuda_out_of_memory
from lt_cli.lightning_answers import is_cudnn_snafu as is_cudnn_snafu
from lt_cli.lightning_answers import is_oom_error as is_oom_error
from lt_cli.lightning_answers import is_out_of_cpu_memory as is_out_of_cpu_memory
from lt_cli.lightning_answers import recursive_detach as recursive_detach

__all__ = [
    "garbage_collection_cuda",
    "is_cuda_out_of_memory",
    "is_cudnn_snafu",
    "is_oom_error",
    "is_out_of_cpu_memory",
    "recursive_detach",
]
