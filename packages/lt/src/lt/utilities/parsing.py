"""Names of `lightning.pytorch.utilities.parsing`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "AttributeDict": "lt_core.hparams:AttributeDict",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
