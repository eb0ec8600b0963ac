# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.module_table import LayerRow as LayerSummary
from lt_callbacks.module_table import ModuleTable as ModelSummary
from lt_callbacks.module_table import ModuleTable as summarize
from lt_callbacks.module_table import human_count as get_human_readable_count

__all__ = [
    "LayerSummary",
    "ModelSummary",
    "get_human_readable_count",
    "summarize",
]
