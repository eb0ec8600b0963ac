"""Names of `lightning.pytorch.strategies.xla`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "XLAStrategy": "lt_strategies.xla:XLA",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
