"""Names of `lightning.pytorch.core.mixins`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "HyperparametersMixin": "lt_core.hparams:HyperparametersMixin",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
