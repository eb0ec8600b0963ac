"""Train PyTorch models: `import lt as pl`.

The names of lt's packages in one place, under the import paths that users of lightning.pytorch know. Nothing is
imported before it is used, and nothing here does anything: `lt.Trainer is lt_loops.Trainer`. `lt.names` is the table.
"""

import sys

from lt.modules import Finder, listing, look_up, public

if not any(isinstance(finder, Finder) for finder in sys.meta_path):
    sys.meta_path.insert(0, Finder())  # first: an empty folder that an older version left is a module to Python

__all__ = [*public("")]


def __getattr__(name: str) -> object:
    return look_up("", name)


def __dir__() -> list[str]:
    return listing("")
