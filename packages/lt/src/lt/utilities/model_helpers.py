"""Names of `lightning.pytorch.utilities.model_helpers`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "get_torchvision_model": "lt_cli.lightning_answers:get_torchvision_model",
    "is_overridden": "lt_cli.lightning_answers:is_overridden",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
