"""Answers Lightning's names in Python processes started by one that runs under ``python -m lt.compat``.

Python imports a module of this name at its start; ``lt_compat.install`` puts this folder on PYTHONPATH.
"""

import contextlib
import sys
from importlib import import_module
from pathlib import Path

_HERE = str(Path(__file__).parent)

with contextlib.suppress(ImportError):  # another Python, without lt
    from lt_compat.install import install

    install()

# a sitecustomize of the user's own comes next
_path = list(sys.path)
sys.path[:] = [folder for folder in _path if folder != _HERE]
_this = sys.modules.pop("sitecustomize", None)
try:
    import_module("sitecustomize")
except ImportError:
    if _this is not None:
        sys.modules["sitecustomize"] = _this
finally:
    sys.path[:] = _path
