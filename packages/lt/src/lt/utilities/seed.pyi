# Written by tools/stubs.py from the table in the module beside it.

from lt_core.seed import isolate_rng as isolate_rng
from lt_core.seed import pl_worker_init_function as pl_worker_init_function
from lt_core.seed import reset_seed as reset_seed
from lt_core.seed import seed_everything as seed_everything

__all__ = [
    "isolate_rng",
    "pl_worker_init_function",
    "reset_seed",
    "seed_everything",
]
