# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.model_summary import ModelSummary as ModelSummary

__all__ = [
    "ModelSummary",
]
