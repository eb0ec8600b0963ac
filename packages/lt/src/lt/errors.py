"""The errors and warnings of lt."""

from lt.lazy import lazy

NAMES = {
    "CheckpointError": "lt_core.errors:CheckpointError",
    "ConfigError": "lt_core.errors:ConfigError",
    "ConfigTypeError": "lt_core.errors:ConfigTypeError",
    "DataError": "lt_core.errors:DataError",
    "HookError": "lt_core.errors:HookError",
    "LogError": "lt_core.errors:LogError",
    "LtDeprecationWarning": "lt_core.errors:LtDeprecationWarning",
    "LtError": "lt_core.errors:LtError",
    "LtWarning": "lt_core.errors:LtWarning",
    "MisconfigurationException": "lt_core.errors:MisconfigurationException",
    "NonFiniteError": "lt_callbacks:NonFiniteError",
    "PluginError": "lt_core.errors:PluginError",
    "RankError": "lt_core.errors:RankError",
    "TrainingSpikeException": "lt_callbacks:TrainingSpikeException",
    "silence": "lt_core.errors:silence",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
