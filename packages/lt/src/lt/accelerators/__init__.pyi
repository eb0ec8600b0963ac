# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import find_usable_cuda_devices as find_usable_cuda_devices
from lt_core.accelerator import Accelerator as Accelerator
from lt_core.accelerator import Cpu as CPUAccelerator
from lt_strategies.cuda import Cuda as CUDAAccelerator
from lt_strategies.cuda import Cuda as GPUAccelerator
from lt_strategies.mps import Mps as MPSAccelerator
from lt_strategies.xla_device import Xla as TPUAccelerator
from lt_strategies.xla_device import Xla as XLAAccelerator
from lt.accelerators import accelerator as accelerator
from lt.accelerators import cpu as cpu
from lt.accelerators import cuda as cuda
from lt.accelerators import gpu as gpu
from lt.accelerators import mps as mps
from lt.accelerators import tpu as tpu
from lt.accelerators import xla as xla

__all__ = [
    "Accelerator",
    "CPUAccelerator",
    "CUDAAccelerator",
    "GPUAccelerator",
    "MPSAccelerator",
    "TPUAccelerator",
    "XLAAccelerator",
    "accelerator",
    "cpu",
    "cuda",
    "find_usable_cuda_devices",
    "gpu",
    "mps",
    "tpu",
    "xla",
]
