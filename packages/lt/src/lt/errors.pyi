# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_core.errors import CheckpointError as CheckpointError
from lt_core.errors import ConfigError as ConfigError
from lt_core.errors import ConfigTypeError as ConfigTypeError
from lt_core.errors import DataError as DataError
from lt_core.errors import HookError as HookError
from lt_core.errors import LogError as LogError
from lt_core.errors import LtDeprecationWarning as LtDeprecationWarning
from lt_core.errors import LtError as LtError
from lt_core.errors import LtWarning as LtWarning
from lt_core.errors import MisconfigurationException as MisconfigurationException
from lt_core.errors import MissingCheckpointError as MissingCheckpointError
from lt_core.errors import PluginError as PluginError
from lt_core.errors import RankError as RankError
from lt_core.errors import silence as silence
from lt_profilers.monitors.nan_guard import NonFiniteError as NonFiniteError
from lt_profilers.monitors.spike import TrainingSpikeException as TrainingSpikeException

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ConfigTypeError",
    "DataError",
    "HookError",
    "LogError",
    "LtDeprecationWarning",
    "LtError",
    "LtWarning",
    "MisconfigurationException",
    "MissingCheckpointError",
    "NonFiniteError",
    "PluginError",
    "RankError",
    "TrainingSpikeException",
    "silence",
]
