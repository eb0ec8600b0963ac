"""The version of the installed lt."""

from importlib.metadata import version

__version__ = version("lt")
