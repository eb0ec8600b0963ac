"""Names of `pytorch_lightning.core.memory`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "ModelSummary": "lt_callbacks.module_table:ModuleTable",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
