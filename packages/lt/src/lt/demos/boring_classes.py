"""Names of `lightning.pytorch.demos.boring_classes`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "BoringDataModule": "lt_cli.lightning_demos:BoringDataModule",
    "BoringModel": "lt_cli.lightning_demos:BoringModel",
    "DemoModel": "lt_cli.lightning_demos:DemoModel",
    "RandomDataset": "lt_cli.lightning_demos:RandomDataset",
    "RandomDictDataset": "lt_cli.lightning_demos:RandomDictDataset",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
