"""lt on Monarch: ranks as actors, of which one that dies is replaced while the others' processes stay."""

from importlib.metadata import version

from lt_monarch.launcher import MonarchLauncher

__version__ = version("lt-monarch")

__all__ = ["MonarchLauncher"]
