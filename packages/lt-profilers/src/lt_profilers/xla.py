"""Names steps and hooks for XLA's profiler, and counts compilations."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from lt_callbacks.arguments import require_package
from lt_profilers.simple import SimpleProfiler

__all__ = ["XLAProfiler"]


class XLAProfiler(SimpleProfiler):
    """The simple profiler, with steps and hooks named for TensorBoard's XLA traces, and a count of compilations.

    It serves traces on ``port``: capture one while the run goes on with
    ``torch_xla.debug.profiler.trace("localhost:9012", logdir)`` or in TensorBoard.

    Args:
        port: TCP port on this machine; 0 for none.
        dirpath: folder of the report; None: the run's log folder, where a ``filename`` is given.
        filename: name of the report without ending, one for each rank; None: rank 0 prints it.

    Raises:
        ConfigError: where torch-xla is not installed.
    """

    def __init__(
        self, port: int = 9012, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None
    ) -> None:
        super().__init__(dirpath, filename)
        self.port = port
        self._lt_server: Any = None
        self._lt_before: dict[str, tuple[int, float]] = {}
        require_package("XLAProfiler", "torch-xla", "lt-xla[xla]")

    def start(self, stage: str, log_dir: str | None) -> None:
        super().start(stage, log_dir)
        import torch_xla.debug.profiler as xp

        if self._lt_server is None and self.port:
            self._lt_server = xp.start_server(self.port)
        self._lt_before = _counters()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch_xla.debug.profiler as xp

        def named(*args: Any, **kwargs: Any) -> Any:
            with xp.Trace(name):
                return function(*args, **kwargs)

        return super().wrap(name, named)

    def profile(self, name: str) -> AbstractContextManager[Any]:
        import torch_xla.debug.profiler as xp

        stack = ExitStack()
        stack.enter_context(super().profile(name))
        stack.enter_context(xp.Trace(name))
        return stack

    def summary(self) -> str:
        now = _counters()
        lines = []
        for name, (count, seconds) in now.items():
            count_before, seconds_before = self._lt_before.get(name, (0, 0.0))
            lines.append(f"{name}: {count - count_before} times, {seconds - seconds_before:.2f} s")
        return f"{super().summary()}\nXLA: {'; '.join(lines)}"


def _counters() -> dict[str, tuple[int, float]]:
    """Return how often XLA compiled and executed so far in this process, and the seconds that it took."""
    import torch_xla.debug.metrics as met

    found = {}
    for title, name in (("compiled", "CompileTime"), ("executed", "ExecuteTime")):
        data = met.metric_data(name)
        found[title] = (int(data[0]), float(data[1]) / 1e9) if data is not None else (0, 0.0)
    return found
