# Written by tools/stubs.py from the table in the module beside it.

from lt_core.accelerator_kit import AcceleratorKit as AcceleratorKit
from lt_core.callback_kit import CallbackKit as CallbackKit
from lt_core.checkpoint_kit import CheckpointKit as CheckpointKit
from lt_core.logger_kit import LoggerKit as LoggerKit
from lt_core.precision_kit import PrecisionKit as PrecisionKit
from lt_core.testing import FakeTrainer as FakeTrainer
from lt_loops.testing import assert_resumes_exactly as assert_resumes_exactly

__all__ = [
    "AcceleratorKit",
    "CallbackKit",
    "CheckpointKit",
    "FakeTrainer",
    "LoggerKit",
    "PrecisionKit",
    "assert_resumes_exactly",
]
