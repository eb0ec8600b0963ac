"""What a fit would do, said before machines are rented: ranks, memory, steps, what happens when (a package of lt)."""

from importlib.metadata import version

from lt_explain.plan import explain

__version__ = version("lt-explain")

__all__ = ["explain"]
