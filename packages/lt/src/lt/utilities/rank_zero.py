"""Functions that do something on rank 0 only."""

from lt.lazy import lazy

NAMES = {
    "LightningDeprecationWarning": "lt_core.errors:LtDeprecationWarning",
    "WarningCache": "lt_cli.lightning_answers:WarningCache",
    "rank_prefixed_message": "lt_cli.lightning_answers:rank_prefixed_message",
    "rank_zero_debug": "lt_core.rank_zero:rank_zero_debug",
    "rank_zero_deprecation": "lt_core.rank_zero:rank_zero_deprecation",
    "rank_zero_info": "lt_core.rank_zero:rank_zero_info",
    "rank_zero_only": "lt_core.rank_zero:rank_zero_only",
    "rank_zero_warn": "lt_core.rank_zero:rank_zero_warn",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
