# Written by tools/stubs.py from the table in __init__.py.

from lt_profilers.advanced import AdvancedProfiler as AdvancedProfiler
from lt_profilers.garbage_collection import GarbageCollection as GarbageCollection
from lt_profilers.gradients import grad_norm as grad_norm
from lt_profilers.monitors.chip_flops import measure_flops as measure_flops
from lt_profilers.monitors.device_stats import DeviceStatsMonitor as DeviceStatsMonitor
from lt_profilers.monitors.git_state import GitState as GitState
from lt_profilers.monitors.memory_snapshot import MemorySnapshot as MemorySnapshot
from lt_profilers.monitors.nan_guard import NaNGuard as NaNGuard
from lt_profilers.monitors.nan_guard import NonFiniteError as NonFiniteError
from lt_profilers.monitors.slow_rank import RankTimes as RankTimes
from lt_profilers.monitors.slow_rank import SlowRankMonitor as SlowRankMonitor
from lt_profilers.monitors.spike import SpikeDetection as SpikeDetection
from lt_profilers.monitors.spike import TrainingSpikeException as TrainingSpikeException
from lt_profilers.monitors.throughput import ThroughputMonitor as ThroughputMonitor
from lt_profilers.pytorch import PyTorchProfiler as PyTorchProfiler
from lt_profilers.serving import ServingCheck as ServingCheck
from lt_profilers.serving import ServingReport as ServingReport
from lt_profilers.serving import check_serving as check_serving
from lt_profilers.simple import SimpleProfiler as SimpleProfiler
from lt_profilers.speed import SpeedProfiler as SpeedProfiler
from lt_profilers.xla import XLAProfiler as XLAProfiler

__version__: str
