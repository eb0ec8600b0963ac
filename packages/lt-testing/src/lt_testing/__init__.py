"""Tests for people who write parts of lt: a kit for each kind of part, a Trainer without a run, a check of resuming.

A kit is a class of tests: subclass it, say how your part is made, and pytest runs them::

    from lt_testing import LoggerKit

    class TestMyLogger(LoggerKit):
        def make_logger(self, folder):
            return MyLogger(folder)

A test of a kit can be overridden only to mark it ``xfail(reason=...)``, so that none is lost unseen.
"""

from importlib.metadata import version

import pytest

_KITS = (
    "accelerator",
    "callback",
    "checkpoint",
    "environment",
    "feed",
    "launcher",
    "logger",
    "precision",
    "profiler",
    "step",
    "strategy",
)
pytest.register_assert_rewrite(*(f"lt_testing.{name}" for name in _KITS))

# ruff: noqa: E402  asserts are rewritten from here on
from lt_testing.accelerator import AcceleratorKit
from lt_testing.callback import CallbackKit
from lt_testing.checkpoint import CheckpointKit
from lt_testing.environment import EnvironmentKit
from lt_testing.exact_resume import assert_resumes_exactly
from lt_testing.fake_trainer import FakeTrainer
from lt_testing.feed import FeedKit
from lt_testing.launcher import LauncherKit
from lt_testing.logger import LoggerKit
from lt_testing.precision import PrecisionKit
from lt_testing.profiler import ProfilerKit
from lt_testing.step import StepKit
from lt_testing.strategy import StrategyConformance, xfail

__version__ = version("lt-testing")

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
