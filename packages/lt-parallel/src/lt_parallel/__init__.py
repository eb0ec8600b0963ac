"""Models that fit no device: FSDP, meshes, tensor, context, expert and pipeline parallelism (a package of lt).

``simulate`` runs the ranks of such a job in turn on one CPU, and says where they would hang. Names are imported when
first used.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "FSDP": ".fsdp",
    "ModelParallel": ".model_parallel",
    "PipelineParallel": ".pipeline",
    "Pipelined": ".pipelined",
    "SimulateLauncher": ".simulate.launcher",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted(__all__)
