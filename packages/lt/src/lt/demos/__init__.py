"""Names of `lightning.pytorch.demos`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "BoringDataModule": "lt_cli.lightning_demos:BoringDataModule",
    "BoringModel": "lt_cli.lightning_demos:BoringModel",
    "RandomDataset": "lt_cli.lightning_demos:RandomDataset",
}
"""Each name, and where it comes from."""

MODULES = ("boring_classes",)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
