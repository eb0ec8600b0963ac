"""For tests of your own callbacks, loggers, accelerators and modules."""

from lt.lazy import lazy

NAMES = {
    "AcceleratorKit": "lt_core.accelerator_kit:AcceleratorKit",
    "CallbackKit": "lt_core.callback_kit:CallbackKit",
    "FakeTrainer": "lt_core.testing:FakeTrainer",
    "LoggerKit": "lt_core.logger_kit:LoggerKit",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
