# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import SIGTERMException as SIGTERMException
from lt_core.errors import CheckpointError as CheckpointError
from lt_core.errors import ConfigError as ConfigError
from lt_core.errors import ConfigTypeError as ConfigTypeError
from lt_core.errors import DataError as DataError
from lt_core.errors import HookError as HookError
from lt_core.errors import LogError as LogError
from lt_core.errors import LtError as LtError
from lt_core.errors import MisconfigurationException as MisconfigurationException
from lt_core.errors import PluginError as PluginError
from lt_core.errors import RankError as RankError

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ConfigTypeError",
    "DataError",
    "HookError",
    "LogError",
    "LtError",
    "MisconfigurationException",
    "PluginError",
    "RankError",
    "SIGTERMException",
]
