"""Where the names of Lightning are in lt: ``lt migrate`` rewrites them, ``lt.compat`` answers them.

lt's umbrella keeps Lightning's module paths, so most names are found under the same path. The tables here hold the
others: names that moved, were renamed, or are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from lt_compat.names.paths import NAMES as PATHS

__all__ = ["GONE", "ROOTS", "Counterpart", "counterpart", "module_in_lt", "path_below_root", "why_gone"]

ROOTS = ("pytorch_lightning", "lightning.pytorch", "lightning.fabric", "lightning_fabric", "lightning")
"""The packages under which Lightning was published, longer paths first."""

_MODULES = {
    "accelerators.gpu": "accelerators.cuda",
    "callbacks.base": "callbacks.callback",
    "callbacks.gpu_stats_monitor": "callbacks",
    "callbacks.lr_finder": "callbacks",
    "callbacks.lr_monitor": "callbacks",
    "callbacks.progress.base": "callbacks.progress.progress_bar",
    "core.lightning": "core.module",
    "core.memory": "utilities.model_summary",
    "core.saving": "core.mixins",
    "loggers.base": "loggers.logger",
    "loggers.csv_logger": "loggers.csv_logs",
    "logging": "loggers",
    "plugins.io.checkpoint_plugin": "plugins.io",
    "plugins.io.torch_plugin": "plugins.io",
    "plugins.training_type": "strategies",
    "plugins.training_type.ddp": "strategies.ddp",
    "profiler": "profilers",
    "strategies.single": "strategies.single_device",
    "tuner.tuning": "tuner",
    "utilities.cli": "cli",
    "utilities.data": "utilities",
    "utilities.distributed": "utilities.rank_zero",
}
"""Modules that are elsewhere in lt."""

_NAMES = {
    "plugins:NativeMixedPrecisionPlugin": "plugins:Mixed",
    "profiler:AbstractProfiler": "profilers:Profiler",
    "profiler:BaseProfiler": "profilers:Profiler",
    "accelerators.gpu:GPUAccelerator": "accelerators:CUDAAccelerator",
    "accelerators:GPUAccelerator": "accelerators:CUDAAccelerator",
    "callbacks.progress:ProgressBarBase": "callbacks:ProgressBar",
    "callbacks:GPUStatsMonitor": "callbacks:DeviceStatsMonitor",
    "callbacks:ProgressBarBase": "callbacks:ProgressBar",
    "callbacks:XLAStatsMonitor": "callbacks:DeviceStatsMonitor",
    "loggers.base:LightningLoggerBase": "loggers:Logger",
    "loggers:LightningLoggerBase": "loggers:Logger",
    "plugins:DDPPlugin": "strategies:DDPStrategy",
    "plugins:DoublePrecisionPlugin": "plugins:DoublePrecision",
    "plugins:MixedPrecision": "plugins:Mixed",
    "plugins:PrecisionPlugin": "plugins:Precision",
    "plugins.precision:MixedPrecision": "plugins:Mixed",
    "plugins:ClusterEnvironment": "plugins.environments:ClusterEnvironment",
    "utilities.grads:grad_norm": "utilities:grad_norm",
    "utilities:AttributeDict": "utilities.parsing:AttributeDict",
    "utilities.apply_func:move_data_to_device": "utilities:move_data_to_device",
    "utilities.rank_zero:LightningDeprecationWarning": "utilities.warnings:LtDeprecationWarning",
    "utilities.warnings:PossibleUserWarning": "utilities.warnings:LtWarning",
}
"""Names that are elsewhere in lt, or are called otherwise there: ``path below the root:name``."""

GONE = {
    "metrics": "metrics have a package of their own: torchmetrics",
    "loops": "lt's loop is one function, lt_loops.fit.run_fit; a loop of your own stands on lt_core",
    "overrides": "a strategy's bind() returns the call in place of training_step",
    "trainer.connectors": "the Trainer's parts are made in lt_loops.setup.resolve; not to be reached into",
    "trainer.states": "trainer.stage is a string, trainer.training, .validating... are flags",
    "utilities.xla_device": "ask lt.accelerators: Accelerator.available()",
    ":Fabric": "python -m lt.compat answers it; a loop of your own stands on lt_core and a strategy",
    "callbacks:LearningRateLogger": "write LearningRateMonitor",
    "loggers:NeptuneLogger": "its service has ended; write MLFlowLogger, WandbLogger or another of lt.loggers",
    "loggers:TestTubeLogger": "write CSVLogger or TensorBoardLogger",
    "strategies": "strategies of lt are 'single', 'ddp', 'fsdp', 'model_parallel', 'xla'",
    "strategies:DeepSpeedStrategy": "write strategy='fsdp'",
    "strategies:DataParallelStrategy": "write strategy='ddp'",
}
"""Names without a counterpart, and remedies."""


class Counterpart(NamedTuple):
    """Where a name is in lt.

    Attributes:
        module: such as ``lt.callbacks``.
        name: its name there; empty for the module itself.
    """

    module: str
    name: str


def path_below_root(module: str) -> str | None:
    """Return the path of a module of Lightning below its root: ``callbacks`` for ``pytorch_lightning.callbacks``.

    Returns:
        An empty string for a root itself, None for a module that is not Lightning's.
    """
    for root in ROOTS:
        if module == root:
            return ""
        if module.startswith(f"{root}."):
            return module.removeprefix(f"{root}.")
    return None


def module_in_lt(path: str) -> str | None:
    """Return the module of lt that stands for a path below Lightning's root, or None.

    Args:
        path: from :func:`path_below_root`.
    """
    path = _MODULES.get(path, path)
    if path not in _tables():
        return None
    return f"lt.{path}" if path else "lt"


def counterpart(path: str, name: str) -> Counterpart | None:
    """Return where ``name``, imported from a module of Lightning, is in lt; None where it is not.

    Args:
        path: of the module, from :func:`path_below_root`.
        name: the name imported from it, perhaps a submodule.
    """
    key = f"{path}:{name}"
    if key in GONE:
        return None
    if key in _NAMES:
        path, _, name = _NAMES[key].partition(":")
    below = f"{path}.{name}" if path else name
    module = module_in_lt(path)
    if module is not None and _has(module, name):
        return Counterpart(module, name)
    if (whole := module_in_lt(below)) is not None:
        return Counterpart(whole, "")
    return _elsewhere(path, name)


def why_gone(path: str, name: str) -> str:
    """Return the remedy for a name without a counterpart, or an empty string."""
    keys = [f"{path}:{name}", f"{path}.{name}" if path else name]
    while path:
        keys.append(path)
        path = path.rpartition(".")[0]
    return next((GONE[key] for key in keys if key in GONE), "")


def _elsewhere(path: str, name: str) -> Counterpart | None:
    """Look for a name further up: Lightning exports many from several modules."""
    while path:
        path = path.rpartition(".")[0]
        module = module_in_lt(path)
        if module is not None and path and _has(module, name):
            return Counterpart(module, name)
    return None


def _has(module: str, name: str) -> bool:
    return name in _tables()[module.removeprefix("lt").removeprefix(".")]


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    """Return the names of each module below lt: its own, and the paths of Lightning's that lt-compat adds."""
    own: Mapping[str, Mapping[str, str]] = import_module("lt.names").NAMES if find_spec("lt") is not None else {}
    return {**PATHS, **own}
