# Written by tools/stubs.py from the table in the module beside it.

from lt_core.accelerator import Accelerator as Accelerator
from lt_core.accelerator import Accelerator as CPUAccelerator
from lt_strategies.cuda import Cuda as CUDAAccelerator
from lt_strategies.mps import Mps as MPSAccelerator
from lt_strategies.xla_device import Xla as XLAAccelerator
from lt.accelerators import accelerator as accelerator
from lt.accelerators import cpu as cpu
from lt.accelerators import cuda as cuda
from lt.accelerators import mps as mps
from lt.accelerators import xla as xla

__all__ = [
    "Accelerator",
    "CPUAccelerator",
    "CUDAAccelerator",
    "MPSAccelerator",
    "XLAAccelerator",
    "accelerator",
    "cpu",
    "cuda",
    "mps",
    "xla",
]
