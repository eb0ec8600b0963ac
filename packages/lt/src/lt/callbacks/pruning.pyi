# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.pruning import ModelPruning as ModelPruning

__all__ = [
    "ModelPruning",
]
