# Written by tools/stubs.py from the table in the module beside it.

from lt_core.gradients import grad_norm as grad_norm
from lt_core.rank_zero import rank_zero_deprecation as rank_zero_deprecation
from lt_core.rank_zero import rank_zero_info as rank_zero_info
from lt_core.rank_zero import rank_zero_only as rank_zero_only
from lt_core.rank_zero import rank_zero_warn as rank_zero_warn
from lt_core.transfer import move_to_device as move_data_to_device
from lt_data.combined import CombinedLoader as CombinedLoader
from lt.utilities import combined_loader as combined_loader
from lt.utilities import exceptions as exceptions
from lt.utilities import model_helpers as model_helpers
from lt.utilities import model_summary as model_summary
from lt.utilities import parsing as parsing
from lt.utilities import rank_zero as rank_zero
from lt.utilities import seed as seed
from lt.utilities import types as types
from lt.utilities import warnings as warnings

__all__ = [
    "CombinedLoader",
    "combined_loader",
    "exceptions",
    "grad_norm",
    "model_helpers",
    "model_summary",
    "move_data_to_device",
    "parsing",
    "rank_zero",
    "rank_zero_deprecation",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
    "seed",
    "types",
    "warnings",
]
