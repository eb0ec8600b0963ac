"""Training steps as CUDA graphs: found by the Trainer's arguments, and imported where one asks."""

from importlib.metadata import version

from lt_graphs.graphs import GraphSteps

__version__ = version("lt-graphs")

__all__ = ["GraphSteps"]
