"""Accelerators: which devices there are."""

from lt.lazy import lazy

NAMES = {
    "Accelerator": "lt_core.accelerator:Accelerator",
    "CPUAccelerator": "lt_core.accelerator:Cpu",
    "CUDAAccelerator": "lt_strategies.cuda:Cuda",
    "GPUAccelerator": "lt_strategies.cuda:Cuda",
    "MPSAccelerator": "lt_strategies.mps:Mps",
    "TPUAccelerator": "lt_strategies.xla_device:Xla",
    "XLAAccelerator": "lt_strategies.xla_device:Xla",
    "find_usable_cuda_devices": "lt_cli.lightning_answers:find_usable_cuda_devices",
}
"""Each name, and where it comes from."""

MODULES = (
    "accelerator",
    "cpu",
    "cuda",
    "gpu",
    "mps",
    "tpu",
    "xla",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
