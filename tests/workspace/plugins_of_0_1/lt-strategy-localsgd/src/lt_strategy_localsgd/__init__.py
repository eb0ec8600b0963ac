"""Local SGD for lt: ``Trainer(strategy="localsgd")``."""

from lt_strategy_localsgd.strategy import LocalSGD

__all__ = ["LocalSGD"]
