"""Names of `pytorch_lightning.utilities.apply_func`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "apply_to_collection": "lt_cli.lightning_answers:apply_to_collection",
    "move_data_to_device": "lt_core.transfer:move_to_device",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
