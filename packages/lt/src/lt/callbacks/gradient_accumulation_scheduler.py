"""Names of `lightning.pytorch.callbacks.gradient_accumulation_scheduler`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "GradientAccumulationScheduler": "lt_callbacks:GradientAccumulationScheduler",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
