# Written by tools/stubs.py from the table in the module beside it.

from lt_core.rank_zero import rank_zero_debug as rank_zero_debug
from lt_core.rank_zero import rank_zero_deprecation as rank_zero_deprecation
from lt_core.rank_zero import rank_zero_info as rank_zero_info
from lt_core.rank_zero import rank_zero_only as rank_zero_only
from lt_core.rank_zero import rank_zero_warn as rank_zero_warn

__all__ = [
    "rank_zero_debug",
    "rank_zero_deprecation",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
]
