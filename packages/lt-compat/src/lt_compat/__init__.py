"""Other people's Lightning code on lt: its module names, its helpers, ``lt migrate``.

``python -m lt.compat train.py`` runs a script that imports ``lightning`` or ``pytorch_lightning`` unchanged;
:func:`install` does the same for the present process.
"""

from __future__ import annotations

from importlib.metadata import version

from lt_compat.install import install, main

__version__ = version("lt-compat")

__all__ = ["install", "main"]
