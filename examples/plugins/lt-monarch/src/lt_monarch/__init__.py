"""lt on Monarch: ranks as actors, of which one that dies is replaced while the others' processes stay."""

from lt_monarch.launcher import MonarchLauncher

__all__ = ["MonarchLauncher"]
