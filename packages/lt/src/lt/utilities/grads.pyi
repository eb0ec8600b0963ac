# Written by tools/stubs.py from the table in the module beside it.

from lt_core.gradients import grad_norm as grad_norm

__all__ = [
    "grad_norm",
]
