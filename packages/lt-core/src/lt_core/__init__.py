"""The core of lt: LightningModule, Callback, hooks and the small interfaces with working defaults."""

from typing import TYPE_CHECKING

from lt_core._bases.callback import CallbackBase
from lt_core._bases.module import ModuleBase
from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.data import DataSource, Feed, make_feed
from lt_core.duration import Duration
from lt_core.environment import Environment
from lt_core.errors import (
    CheckpointError,
    ConfigError,
    ConfigTypeError,
    DataError,
    HookError,
    LogError,
    LtDeprecationWarning,
    LtError,
    LtWarning,
    MisconfigurationException,
    PluginError,
    RankError,
)
from lt_core.launcher import Launcher, RunResult
from lt_core.logger import Logger
from lt_core.logging.recorder import Recorder
from lt_core.module import LightningModule
from lt_core.optimizer import LightningOptimizer
from lt_core.plugins import load_name
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.ranks import Ranks, Supervisor
from lt_core.seed import isolate_rng, seed_everything
from lt_core.strategy import Capabilities, Placement, Shard, Strategy, SupportsMesh, SupportsStages
from lt_core.trainer import TrainerAPI

__version__: str

__all__ = [
    "Accelerator",
    "Callback",
    "CallbackBase",
    "Capabilities",
    "CheckpointError",
    "CheckpointIO",
    "ConfigError",
    "ConfigTypeError",
    "DataError",
    "DataSource",
    "Duration",
    "Environment",
    "Feed",
    "HookError",
    "Launcher",
    "LightningModule",
    "LightningOptimizer",
    "LogError",
    "Logger",
    "LtDeprecationWarning",
    "LtError",
    "LtWarning",
    "MisconfigurationException",
    "ModuleBase",
    "Placement",
    "PluginError",
    "Precision",
    "Profiler",
    "RankError",
    "Ranks",
    "Recorder",
    "RunResult",
    "Shard",
    "Strategy",
    "Supervisor",
    "SupportsMesh",
    "SupportsStages",
    "TrainerAPI",
    "isolate_rng",
    "make_feed",
    "seed_everything",
]

if not TYPE_CHECKING:  # else any name would be one to a type checker

    def __getattr__(name: str) -> str:
        return load_name(__name__, {}, name)
