"""For tests of your own callbacks, loggers, accelerators, checkpoint and number formats, modules, and of resuming."""

from lt.lazy import lazy

NAMES = {
    "AcceleratorKit": "lt_testing:AcceleratorKit",
    "CallbackKit": "lt_testing:CallbackKit",
    "CheckpointKit": "lt_testing:CheckpointKit",
    "FakeTrainer": "lt_testing:FakeTrainer",
    "LoggerKit": "lt_testing:LoggerKit",
    "PrecisionKit": "lt_testing:PrecisionKit",
    "StrategyConformance": "lt_testing:StrategyConformance",
    "assert_resumes_exactly": "lt_testing:assert_resumes_exactly",
    "xfail": "lt_testing:xfail",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
