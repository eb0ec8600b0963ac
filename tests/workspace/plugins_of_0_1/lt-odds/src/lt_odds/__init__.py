"""One small plug-in of each kind."""

from lt_odds.jobs import Averaging, Forks, MyCluster
from lt_odds.parts import Count, Counted, Fake, GzipIO, Rounded, WeightNorm

__all__ = ["Averaging", "Count", "Counted", "Fake", "Forks", "GzipIO", "MyCluster", "Rounded", "WeightNorm"]
