"""Warnings."""

from lt.lazy import lazy

NAMES = {
    "LtDeprecationWarning": "lt_core.errors:LtDeprecationWarning",
    "LtWarning": "lt_core.errors:LtWarning",
    "PossibleUserWarning": "lt_core.errors:LtWarning",
    "silence": "lt_core.errors:silence",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
