"""For tests of your own callbacks, loggers, accelerators, checkpoint and number formats, modules, and of resuming."""

from lt.lazy import lazy

NAMES = {
    "AcceleratorKit": "lt_core.accelerator_kit:AcceleratorKit",
    "CallbackKit": "lt_core.callback_kit:CallbackKit",
    "CheckpointKit": "lt_core.checkpoint_kit:CheckpointKit",
    "FakeTrainer": "lt_core.testing:FakeTrainer",
    "LoggerKit": "lt_core.logger_kit:LoggerKit",
    "PrecisionKit": "lt_core.precision_kit:PrecisionKit",
    "assert_resumes_exactly": "lt_loops.testing:assert_resumes_exactly",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
