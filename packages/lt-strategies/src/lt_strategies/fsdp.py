"""The old place of ``FSDP`` and ``ModelParallel``, which lt-parallel has."""

from functools import partial

from lt_core.plugins import load_name

__getattr__ = partial(load_name, "lt_strategies", {})
