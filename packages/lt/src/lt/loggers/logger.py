"""Names of `lightning.pytorch.loggers.logger`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "DummyExperiment": "lt_core.logger:DummyExperiment",
    "DummyLogger": "lt_core.logger:DummyLogger",
    "Logger": "lt_core.logger:Logger",
    "rank_zero_experiment": "lt_core.logger:rank_zero_experiment",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
