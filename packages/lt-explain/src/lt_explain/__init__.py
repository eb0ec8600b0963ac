"""The plan of a fit before machines are rented: ranks, memory, steps, schedule (a package of lt)."""

from importlib.metadata import version

from lt_explain.plan import explain

__version__ = version("lt-explain")

__all__ = ["explain"]
