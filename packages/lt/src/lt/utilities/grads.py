"""Names of `lightning.pytorch.utilities.grads`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "grad_norm": "lt_core.gradients:grad_norm",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
