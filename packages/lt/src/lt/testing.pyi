# Written by tools/stubs.py from the table in the module beside it.

from lt_core.logger_kit import LoggerKit as LoggerKit
from lt_core.testing import FakeTrainer as FakeTrainer

__all__ = [
    "FakeTrainer",
    "LoggerKit",
]
