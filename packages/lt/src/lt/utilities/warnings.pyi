# Written by tools/stubs.py from the table in the module beside it.

from lt_core.errors import LtDeprecationWarning as LtDeprecationWarning
from lt_core.errors import LtWarning as LtWarning
from lt_core.errors import LtWarning as PossibleUserWarning
from lt_core.errors import silence as silence

__all__ = [
    "LtDeprecationWarning",
    "LtWarning",
    "PossibleUserWarning",
    "silence",
]
