"""Ranks of lt as Ray actors: ``Trainer(plugins=[RayLauncher()])``."""

from lt_ray.launcher import RayLauncher

__all__ = ["RayLauncher"]
