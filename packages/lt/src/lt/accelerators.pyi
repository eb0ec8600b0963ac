# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_compat.lightning.utilities import find_usable_cuda_devices as find_usable_cuda_devices
from lt_core.accelerator import Accelerator as Accelerator
from lt_core.accelerator import Cpu as CPUAccelerator
from lt_strategies.accelerators.cuda import Cuda as CUDAAccelerator
from lt_strategies.accelerators.cuda import Cuda as GPUAccelerator
from lt_strategies.accelerators.mps import Mps as MPSAccelerator
from lt_xla.device import Xla as TPUAccelerator
from lt_xla.device import Xla as XLAAccelerator

__all__ = [
    "Accelerator",
    "CPUAccelerator",
    "CUDAAccelerator",
    "GPUAccelerator",
    "MPSAccelerator",
    "TPUAccelerator",
    "XLAAccelerator",
    "find_usable_cuda_devices",
]
