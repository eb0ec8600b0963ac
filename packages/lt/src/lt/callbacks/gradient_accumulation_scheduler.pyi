# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.gradient_accumulation_scheduler import GradientAccumulationScheduler as GradientAccumulationScheduler

__all__ = [
    "GradientAccumulationScheduler",
]
