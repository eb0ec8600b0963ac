# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_callbacks.summary.module_table import ModuleTable as ModelSummary
from lt_compat.lightning.rank_zero import rank_zero_debug as rank_zero_debug
from lt_compat.lightning.rank_zero import rank_zero_deprecation as rank_zero_deprecation
from lt_compat.lightning.rank_zero import rank_zero_info as rank_zero_info
from lt_compat.lightning.rank_zero import rank_zero_only as rank_zero_only
from lt_compat.lightning.rank_zero import rank_zero_warn as rank_zero_warn
from lt_compat.lightning.trainer_state import GradClipAlgorithmType as GradClipAlgorithmType
from lt_compat.lightning.trainer_state import LightningEnum as LightningEnum
from lt_compat.lightning.utilities import apply_to_collection as apply_to_collection
from lt_compat.lightning.utilities import disable_possible_user_warnings as disable_possible_user_warnings
from lt_compat.lightning.utilities import find_shared_parameters as find_shared_parameters
from lt_compat.lightning.utilities import is_overridden as is_overridden
from lt_compat.lightning.utilities import is_picklable as is_picklable
from lt_compat.lightning.utilities import set_shared_parameters as set_shared_parameters
from lt_compat.lightning.utilities import suggested_max_num_workers as suggested_max_num_workers
from lt_core.batch import move_to_device as move_data_to_device
from lt_core.errors import MisconfigurationException as MisconfigurationException
from lt_core.hparams import AttributeDict as AttributeDict
from lt_core.seed import isolate_rng as isolate_rng
from lt_core.seed import seed_everything as seed_everything
from lt_data.combined import CombinedLoader as CombinedLoader
from lt_profilers.gradients import grad_norm as grad_norm
from lt_profilers.monitors.chip_flops import measure_flops as measure_flops

__all__ = [
    "AttributeDict",
    "CombinedLoader",
    "GradClipAlgorithmType",
    "LightningEnum",
    "MisconfigurationException",
    "ModelSummary",
    "apply_to_collection",
    "disable_possible_user_warnings",
    "find_shared_parameters",
    "grad_norm",
    "is_overridden",
    "is_picklable",
    "isolate_rng",
    "measure_flops",
    "move_data_to_device",
    "rank_zero_debug",
    "rank_zero_deprecation",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
    "seed_everything",
    "set_shared_parameters",
    "suggested_max_num_workers",
]
