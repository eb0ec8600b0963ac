"""Errors."""

from lt.lazy import lazy

NAMES = {
    "CheckpointError": "lt_core.errors:CheckpointError",
    "ConfigError": "lt_core.errors:ConfigError",
    "ConfigTypeError": "lt_core.errors:ConfigTypeError",
    "DataError": "lt_core.errors:DataError",
    "HookError": "lt_core.errors:HookError",
    "LogError": "lt_core.errors:LogError",
    "LtError": "lt_core.errors:LtError",
    "MisconfigurationException": "lt_core.errors:MisconfigurationException",
    "PluginError": "lt_core.errors:PluginError",
    "RankError": "lt_core.errors:RankError",
    "SIGTERMException": "lt_cli.lightning_answers:SIGTERMException",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
