"""Tables of a model's layers."""

from lt.lazy import lazy

NAMES = {
    "LayerSummary": "lt_callbacks.module_table:LayerRow",
    "ModelSummary": "lt_callbacks.module_table:ModuleTable",
    "get_human_readable_count": "lt_callbacks.module_table:human_count",
    "summarize": "lt_callbacks.module_table:ModuleTable",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
