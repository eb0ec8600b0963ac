"""Names of `lightning.pytorch.callbacks.finetuning`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "BackboneFinetuning": "lt_callbacks:BackboneFinetuning",
    "BaseFinetuning": "lt_callbacks:BaseFinetuning",
    "multiplicative": "lt_callbacks.finetuning:multiplicative",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
