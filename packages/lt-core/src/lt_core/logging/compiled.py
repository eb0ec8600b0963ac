"""Logging from a compiled step. A module of its own: ``torch.compiler.disable`` imports the compiler, which takes
seconds, which only users of torch.compile should wait for.
"""

from typing import Any

import torch
from torch import Tensor

from lt_core.logging.recorder import Given, Recorder

__all__ = ["log_from_the_graph"]


def log_from_the_graph(
    recorder: Recorder, name: str, value: Any, given: tuple[Any, ...], batch_size: int | None
) -> None:
    """Log from code that is being compiled; ``given`` are the settings, in the order of :class:`Given`.

    Where the loop makes the calls after the step (``recorder.deferred``) the value becomes one more output of the
    graph; elsewhere the graph breaks here, and goes on after it.
    """
    if recorder.deferred is None:
        _log_outside_the_graph(recorder, name, value, given, batch_size)
        return
    kept = value.detach().clone() if isinstance(value, Tensor) else value  # the user's may be changed in place
    recorder.deferred.append((name, kept, given, batch_size))  # type: ignore[arg-type]


_log_outside_the_graph: Any = torch.compiler.disable(  # type: ignore[no-untyped-call]
    lambda recorder, name, value, given, batch_size: recorder.log(name, value, Given(*given), batch_size)
)
