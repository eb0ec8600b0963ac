"""Seeds."""

from lt.lazy import lazy

NAMES = {
    "isolate_rng": "lt_core.seed:isolate_rng",
    "pl_worker_init_function": "lt_core.seed:pl_worker_init_function",
    "reset_seed": "lt_core.seed:reset_seed",
    "seed_everything": "lt_core.seed:seed_everything",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
