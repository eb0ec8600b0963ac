"""Names of `pytorch_lightning.utilities.cloud_io`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "get_filesystem": "lt_cli.lightning_answers:get_filesystem",
    "load": "lt_cli.lightning_answers:load",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
