# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.module_table import ModuleTable as ModelSummary

__all__ = [
    "ModelSummary",
]
