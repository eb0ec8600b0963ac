# Written by tools/stubs.py from the table in __init__.py.

from lt_xla.device import Xla as Xla
from lt_xla.processes import XLAProcesses as XLAProcesses
from lt_xla.spmd import XLA as XLA
from lt_xla.spmd import XLASPMD as XLASPMD

__version__: str
