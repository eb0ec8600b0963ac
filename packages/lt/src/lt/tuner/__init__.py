"""The Tuner: learning rate and batch size by short trials."""

from lt.lazy import lazy

NAMES = {
    "Tuner": "lt_callbacks:Tuner",
}
"""Each name, and where it comes from."""

MODULES = ("tuning",)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
