# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.rich_model_summary import RichModelSummary as RichModelSummary

__all__ = [
    "RichModelSummary",
]
