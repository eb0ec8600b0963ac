# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import WarningCache as WarningCache
from lt_cli.lightning_answers import rank_prefixed_message as rank_prefixed_message
from lt_core.errors import LtDeprecationWarning as LightningDeprecationWarning
from lt_core.rank_zero import rank_zero_debug as rank_zero_debug
from lt_core.rank_zero import rank_zero_deprecation as rank_zero_deprecation
from lt_core.rank_zero import rank_zero_info as rank_zero_info
from lt_core.rank_zero import rank_zero_only as rank_zero_only
from lt_core.rank_zero import rank_zero_warn as rank_zero_warn

__all__ = [
    "LightningDeprecationWarning",
    "WarningCache",
    "rank_prefixed_message",
    "rank_zero_debug",
    "rank_zero_deprecation",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
]
