"""Names of `pytorch_lightning.core.decorators`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "auto_move_data": "lt_cli.lightning_answers:auto_move_data",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
