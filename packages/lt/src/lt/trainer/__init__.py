"""The Trainer."""

from lt.lazy import lazy

NAMES = {
    "Trainer": "lt_loops:Trainer",
    "seed_everything": "lt_core.seed:seed_everything",
}
"""Each name, and where it comes from."""

MODULES = (
    "states",
    "supporters",
    "trainer",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
