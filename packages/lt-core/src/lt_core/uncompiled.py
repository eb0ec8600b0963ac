"""Logging from a compiled step. A module of its own: ``torch.compiler.disable`` imports the compiler, which takes
seconds, and only those who compile should wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_core.recorder import Recorder

__all__ = ["log_from_the_graph", "log_when_done"]


def log_from_the_graph(module: LightningModule, name: str, value: Any, settings: tuple[Any, ...]) -> None:
    """Log from code that is being compiled; ``settings`` are the other arguments of ``self.log``, in its order.

    In a step that :func:`log_when_done` wraps the value becomes one more output of the graph; elsewhere the graph
    breaks here, and goes on after it.
    """
    recorder: Recorder | None = module.__dict__.get("_recorder")
    if recorder is None:
        return
    if recorder.deferred is None:
        _log_outside_the_graph(module, name, value, settings)
        return
    kept = value.detach().clone() if isinstance(value, Tensor) else value  # the user's may be changed in place
    recorder.deferred.append((module, name, kept, settings))


def log_when_done(step: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Return a compiled ``step`` that makes its calls of ``self.log`` when it is done: none breaks its graph."""
    deferred: list[tuple[LightningModule, str, Any, tuple[Any, ...]]] = []

    def logging_step(*args: Any, **kwargs: Any) -> Any:
        recorder.deferred = deferred
        output = step(*args, **kwargs)
        recorder.deferred = None
        for module, name, value, settings in deferred:
            module.log(name, value, *settings)
        deferred.clear()
        return output

    return logging_step


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _log_outside_the_graph(module: LightningModule, name: str, value: Any, settings: tuple[Any, ...]) -> None:
    module.log(name, value, *settings)
