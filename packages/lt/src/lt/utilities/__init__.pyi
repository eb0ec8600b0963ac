# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.chip_flops import measure_flops as measure_flops
from lt_callbacks.module_table import ModuleTable as ModelSummary
from lt_cli.lightning_answers import apply_to_collection as apply_to_collection
from lt_cli.lightning_answers import disable_possible_user_warnings as disable_possible_user_warnings
from lt_cli.lightning_answers import find_shared_parameters as find_shared_parameters
from lt_cli.lightning_answers import is_overridden as is_overridden
from lt_cli.lightning_answers import is_picklable as is_picklable
from lt_cli.lightning_answers import set_shared_parameters as set_shared_parameters
from lt_cli.lightning_answers import suggested_max_num_workers as suggested_max_num_workers
from lt_core.errors import MisconfigurationException as MisconfigurationException
from lt_core.gradients import grad_norm as grad_norm
from lt_core.hparams import AttributeDict as AttributeDict
from lt_core.rank_zero import rank_zero_debug as rank_zero_debug
from lt_core.rank_zero import rank_zero_deprecation as rank_zero_deprecation
from lt_core.rank_zero import rank_zero_info as rank_zero_info
from lt_core.rank_zero import rank_zero_only as rank_zero_only
from lt_core.rank_zero import rank_zero_warn as rank_zero_warn
from lt_core.seed import isolate_rng as isolate_rng
from lt_core.seed import seed_everything as seed_everything
from lt_core.states import GradClipAlgorithmType as GradClipAlgorithmType
from lt_core.states import LightningEnum as LightningEnum
from lt_core.transfer import move_to_device as move_data_to_device
from lt_data.combined import CombinedLoader as CombinedLoader
from lt.utilities import apply_func as apply_func
from lt.utilities import cli as cli
from lt.utilities import cloud_io as cloud_io
from lt.utilities import combined_loader as combined_loader
from lt.utilities import data as data
from lt.utilities import distributed as distributed
from lt.utilities import enums as enums
from lt.utilities import exceptions as exceptions
from lt.utilities import grads as grads
from lt.utilities import imports as imports
from lt.utilities import memory as memory
from lt.utilities import model_helpers as model_helpers
from lt.utilities import model_summary as model_summary
from lt.utilities import parsing as parsing
from lt.utilities import rank_zero as rank_zero
from lt.utilities import seed as seed
from lt.utilities import signature_utils as signature_utils
from lt.utilities import types as types
from lt.utilities import warnings as warnings

__all__ = [
    "AttributeDict",
    "CombinedLoader",
    "GradClipAlgorithmType",
    "LightningEnum",
    "MisconfigurationException",
    "ModelSummary",
    "apply_func",
    "apply_to_collection",
    "cli",
    "cloud_io",
    "combined_loader",
    "data",
    "disable_possible_user_warnings",
    "distributed",
    "enums",
    "exceptions",
    "find_shared_parameters",
    "grad_norm",
    "grads",
    "imports",
    "is_overridden",
    "is_picklable",
    "isolate_rng",
    "measure_flops",
    "memory",
    "model_helpers",
    "model_summary",
    "move_data_to_device",
    "parsing",
    "rank_zero",
    "rank_zero_debug",
    "rank_zero_deprecation",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
    "seed",
    "seed_everything",
    "set_shared_parameters",
    "signature_utils",
    "suggested_max_num_workers",
    "types",
    "warnings",
]
