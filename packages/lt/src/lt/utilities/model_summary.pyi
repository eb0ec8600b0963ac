# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.module_table import ModuleTable as ModelSummary
from lt_callbacks.module_table import ModuleTable as summarize

__all__ = [
    "ModelSummary",
    "summarize",
]
