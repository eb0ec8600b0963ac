"""Names of `pytorch_lightning.utilities.cli`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "LightningArgumentParser": "lt_cli:LightningArgumentParser",
    "LightningCLI": "lt_cli:LightningCLI",
    "SaveConfigCallback": "lt_cli:SaveConfigCallback",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
