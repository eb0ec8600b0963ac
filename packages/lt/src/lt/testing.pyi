# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_testing.accelerator import AcceleratorKit as AcceleratorKit
from lt_testing.callback import CallbackKit as CallbackKit
from lt_testing.checkpoint import CheckpointKit as CheckpointKit
from lt_testing.environment import EnvironmentKit as EnvironmentKit
from lt_testing.exact_resume import assert_resumes_exactly as assert_resumes_exactly
from lt_testing.fake_trainer import FakeTrainer as FakeTrainer
from lt_testing.feed import FeedKit as FeedKit
from lt_testing.launcher import LauncherKit as LauncherKit
from lt_testing.logger import LoggerKit as LoggerKit
from lt_testing.precision import PrecisionKit as PrecisionKit
from lt_testing.profiler import ProfilerKit as ProfilerKit
from lt_testing.step import StepKit as StepKit
from lt_testing.strategy.conformance import StrategyConformance as StrategyConformance
from lt_testing.strategy.conformance import xfail as xfail

__all__ = [
    "AcceleratorKit",
    "CallbackKit",
    "CheckpointKit",
    "EnvironmentKit",
    "FakeTrainer",
    "FeedKit",
    "LauncherKit",
    "LoggerKit",
    "PrecisionKit",
    "ProfilerKit",
    "StepKit",
    "StrategyConformance",
    "assert_resumes_exactly",
    "xfail",
]
