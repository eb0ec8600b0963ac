"""``Trainer(compile=...)``: the compiled training step."""

from collections.abc import Callable
from typing import Any

from lt_core.logging.recorder import Given
from lt_loops.logging.recorder import RunRecorder


def log_when_done(step: Callable[..., Any], recorder: RunRecorder) -> Callable[..., Any]:
    """Return a compiled ``step`` that makes its calls of ``self.log`` when it is done: none breaks its graph."""

    def logging_step(*args: Any, **kwargs: Any) -> Any:
        deferred: list[Any] = []
        outer, recorder.deferred = recorder.deferred, deferred  # a capture of the compiled step defers them once more
        try:
            output = step(*args, **kwargs)
        finally:
            recorder.deferred = outer
        for name, value, given, batch_size in deferred:
            slots = recorder.slots
            slot: Any = slots.get(name) if slots is not None else None
            if slot is None or slot.given != given:
                slot = recorder.resolve(name, Given(*given), batch_size)
            slot.add(value, batch_size)
        return output

    return logging_step
