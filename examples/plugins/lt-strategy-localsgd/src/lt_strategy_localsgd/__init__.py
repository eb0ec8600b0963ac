"""Local SGD for lt: ``Trainer(strategy="localsgd")``."""

from importlib.metadata import version

from lt_strategy_localsgd.strategy import LocalSGD

__version__ = version("lt-strategy-localsgd")

__all__ = ["LocalSGD"]
