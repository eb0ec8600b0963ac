# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.model_checkpoint import ModelCheckpoint as ModelCheckpoint

__all__ = [
    "ModelCheckpoint",
]
