"""A training step for lt that makes a classifier agree with itself under dropout."""

from importlib.metadata import version

from lt_step_rdrop.step import RDrop

__version__ = version("lt-step-rdrop")

__all__ = ["RDrop"]
