"""Logging from a compiled step. A module of its own: ``torch.compiler.disable`` imports the compiler, which takes
seconds, and only those who compile should wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lt_core.logging._slot import Given
from lt_core.logging.recorder import Recorder

__all__ = ["log_from_the_graph", "log_when_done"]


def log_from_the_graph(
    recorder: Recorder, name: str, value: Any, given: tuple[Any, ...], batch_size: int | None
) -> None:
    """Log from code that is being compiled; ``given`` are the settings, in the order of :class:`Given`.

    In a step that :func:`log_when_done` wraps the value becomes one more output of the graph; elsewhere the graph
    breaks here, and goes on after it.
    """
    if recorder.deferred is None:
        _log_outside_the_graph(recorder, name, value, given, batch_size)
        return
    kept = value.detach().clone() if isinstance(value, Tensor) else value  # the user's may be changed in place
    recorder.deferred.append((name, kept, given, batch_size))  # type: ignore[arg-type]


def log_when_done(step: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Return a compiled ``step`` that makes its calls of ``self.log`` when it is done: none breaks its graph."""
    deferred: list[Any] = []

    def logging_step(*args: Any, **kwargs: Any) -> Any:
        outer, recorder.deferred = recorder.deferred, deferred  # a capture of the compiled step defers them once more
        try:
            output = step(*args, **kwargs)
        except BaseException:
            deferred.clear()
            raise
        finally:
            recorder.deferred = outer
        for call in deferred:
            _log(recorder, *call)
        deferred.clear()
        return output

    return logging_step


def _log(recorder: Recorder, name: str, value: Any, given: tuple[Any, ...], batch_size: int | None) -> None:
    recorder.log(name, value, Given(*given), batch_size)


_log_outside_the_graph = torch.compiler.disable(_log)  # type: ignore[no-untyped-call]
