"""Small things that users' code imports."""

from lt.lazy import lazy

NAMES = {
    "CombinedLoader": "lt_data:CombinedLoader",
    "grad_norm": "lt_core.gradients:grad_norm",
    "move_data_to_device": "lt_core.transfer:move_to_device",
    "rank_zero_deprecation": "lt_core.rank_zero:rank_zero_deprecation",
    "rank_zero_info": "lt_core.rank_zero:rank_zero_info",
    "rank_zero_only": "lt_core.rank_zero:rank_zero_only",
    "rank_zero_warn": "lt_core.rank_zero:rank_zero_warn",
}
"""Each name, and where it comes from."""

MODULES = (
    "combined_loader",
    "exceptions",
    "model_helpers",
    "model_summary",
    "parsing",
    "rank_zero",
    "seed",
    "types",
    "warnings",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
