# Written by tools/stubs.py from the table in __init__.py.

from lt_parallel.fsdp import FSDP as FSDP
from lt_parallel.model_parallel import ModelParallel as ModelParallel
from lt_parallel.pipeline import PipelineParallel as PipelineParallel
from lt_parallel.pipelined import Pipelined as Pipelined
from lt_parallel.simulate.launcher import SimulateLauncher as SimulateLauncher

__version__: str
