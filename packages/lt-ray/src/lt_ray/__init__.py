"""lt on Ray: ranks as Ray actors, and reports to Ray Train and Ray Tune.

``Trainer(plugins=[RayLauncher()])``, ``Trainer(callbacks=[RayReport()])``.
"""

from importlib.metadata import version
from typing import Any

from lt_ray.launcher import RayLauncher

__version__ = version("lt-ray")

__all__ = ["RayLauncher", "RayReport"]


def __getattr__(name: str) -> Any:
    """Import the names that need ``ray[train,tune]`` when they are asked for."""
    if name != "RayReport":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from lt_ray.report import RayReport
    except ImportError as error:
        raise ImportError(f"RayReport needs Ray's train and tune: pip install 'lt-ray[tune]' ({error})") from error
    return RayReport
