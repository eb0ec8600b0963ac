"""Names of `lightning.pytorch.utilities.memory`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "garbage_collection_cuda": "lt_cli.lightning_answers:garbage_collection_cuda",
    "is_cuda_out_of_memory": "lt_cli.lightning_answers:is_cuda_out_of_memory",
    "is_cudnn_snafu": "lt_cli.lightning_answers:is_cudnn_snafu",
    "is_oom_error": "lt_cli.lightning_answers:is_oom_error",
    "is_out_of_cpu_memory": "lt_cli.lightning_answers:is_out_of_cpu_memory",
    "recursive_detach": "lt_cli.lightning_answers:recursive_detach",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
