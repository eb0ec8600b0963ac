"""Models that fit no device: FSDP, meshes, tensor, context, expert and pipeline parallelism (a package of lt).

``simulate`` runs the ranks of such a job in turn on one CPU, and says where they would hang. Names are imported when
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lt_parallel.fsdp import FSDP, ModelParallel
    from lt_parallel.pipeline import PipelineParallel
    from lt_parallel.pipelined import Pipelined
    from lt_parallel.simulate.launcher import SimulateLauncher

__all__ = ["FSDP", "ModelParallel", "PipelineParallel", "Pipelined", "SimulateLauncher"]

_WHERE = {
    "FSDP": "fsdp",
    "ModelParallel": "fsdp",
    "PipelineParallel": "pipeline",
    "Pipelined": "pipelined",
    "SimulateLauncher": "simulate.launcher",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lt-parallel")
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
