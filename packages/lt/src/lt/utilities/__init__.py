"""Small things that users' code imports."""

from lt.lazy import lazy

NAMES = {
    "AttributeDict": "lt_core.hparams:AttributeDict",
    "CombinedLoader": "lt_data:CombinedLoader",
    "GradClipAlgorithmType": "lt_core.states:GradClipAlgorithmType",
    "LightningEnum": "lt_core.states:LightningEnum",
    "MisconfigurationException": "lt_core.errors:MisconfigurationException",
    "ModelSummary": "lt_callbacks.module_table:ModuleTable",
    "apply_to_collection": "lt_cli.lightning_answers:apply_to_collection",
    "disable_possible_user_warnings": "lt_cli.lightning_answers:disable_possible_user_warnings",
    "find_shared_parameters": "lt_cli.lightning_answers:find_shared_parameters",
    "grad_norm": "lt_core.gradients:grad_norm",
    "is_overridden": "lt_cli.lightning_answers:is_overridden",
    "is_picklable": "lt_cli.lightning_answers:is_picklable",
    "isolate_rng": "lt_core.seed:isolate_rng",
    "measure_flops": "lt_callbacks.chip_flops:measure_flops",
    "move_data_to_device": "lt_core.transfer:move_to_device",
    "rank_zero_debug": "lt_core.rank_zero:rank_zero_debug",
    "rank_zero_deprecation": "lt_core.rank_zero:rank_zero_deprecation",
    "rank_zero_info": "lt_core.rank_zero:rank_zero_info",
    "rank_zero_only": "lt_core.rank_zero:rank_zero_only",
    "rank_zero_warn": "lt_core.rank_zero:rank_zero_warn",
    "seed_everything": "lt_core.seed:seed_everything",
    "set_shared_parameters": "lt_cli.lightning_answers:set_shared_parameters",
    "suggested_max_num_workers": "lt_cli.lightning_answers:suggested_max_num_workers",
}
"""Each name, and where it comes from."""

MODULES = (
    "apply_func",
    "cli",
    "cloud_io",
    "combined_loader",
    "data",
    "distributed",
    "enums",
    "exceptions",
    "grads",
    "imports",
    "memory",
    "model_helpers",
    "model_summary",
    "parsing",
    "rank_zero",
    "seed",
    "signature_utils",
    "types",
    "warnings",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
