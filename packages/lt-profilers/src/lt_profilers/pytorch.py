"""Traces operators of CPU and GPU with torch's profiler."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import profiler as torch_profiler
from torch.autograd.profiler_util import FunctionEventAvg

from lt_callbacks.arguments import whole
from lt_core.checkpoint import is_remote, local_folder
from lt_core.errors import ConfigError, did_you_mean
from lt_core.rank import process_rank
from lt_profilers.simple import SimpleProfiler

__all__ = ["PyTorchProfiler"]


class PyTorchProfiler(SimpleProfiler):
    """Traces a few batches with ``torch.profiler``: each operator on CPU and GPU, with the steps and hooks named.

    Traces are written as ``*.pt.trace.json`` to ``profile`` in the run's log folder, one for each rank; Perfetto
    (https://ui.perfetto.dev), ``chrome://tracing`` and TensorBoard's profiler plug-in open them. By default batch 1 is
    left out, 2 warms up, and 3 to 5 are traced; the report has the operators of those.

    Args:
        dirpath: folder of traces and report; None: see above.
        filename: name of the report without ending; None: rank 0 prints it.
        group_by_input_shapes: list operators by the shapes of their inputs too.
        emit_nvtx: mark ranges for Nsight Systems in place of tracing.
        export_to_chrome: write traces.
        row_limit: operators in the report, -1 for all.
        sort_by_key: column that orders the report; default: time on the GPU, or on the CPU where there is none.
        table_kwargs: further arguments of ``key_averages().table``.
        record_module_names: accepted as in Lightning; ``with_modules`` and ``with_stack`` are torch's own.
        profiler_kwargs: arguments of ``torch.profiler.profile``: ``schedule``, ``on_trace_ready``, ``activities``,
            ``record_shapes``, ``profile_memory``, ``with_stack``, ``with_flops``...

    Attributes:
        profiler: the ``torch.profiler.profile`` of the present run, or None.
        function_events: the operators that were traced last, or None.

    Raises:
        ConfigError: for an argument that ``torch.profiler.profile`` does not know.
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        group_by_input_shapes: bool = False,
        emit_nvtx: bool = False,
        export_to_chrome: bool = True,
        row_limit: int = 20,
        sort_by_key: str | None = None,
        table_kwargs: dict[str, Any] | None = None,
        record_module_names: bool = True,
        **profiler_kwargs: Any,
    ) -> None:
        super().__init__(dirpath, filename)
        _check(profiler_kwargs, sort_by_key)
        self._lt_by_shapes = group_by_input_shapes
        self._emit_nvtx = emit_nvtx
        self._lt_exports = export_to_chrome
        self._row_limit = whole("PyTorchProfiler", "row_limit", row_limit, -1, "-1 for all")
        self._sort_by_key = sort_by_key
        self._table_kwargs = table_kwargs or {}
        self._profiler_kwargs = profiler_kwargs
        self.profiler: torch_profiler.profile | None = None
        self.function_events: Any = None
        self._lt_open = ExitStack()
        self._lt_operators = ""

    def start(self, stage: str, log_dir: str | None) -> None:
        super().start(stage, log_dir)
        self._lt_operators = ""
        self._lt_open = ExitStack()
        if self._emit_nvtx:
            self._lt_open.enter_context(torch.autograd.profiler.emit_nvtx())  # type: ignore[no-untyped-call]
        else:
            self.profiler = self._lt_make()
            self._lt_open.enter_context(self.profiler)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def named(*args: Any, **kwargs: Any) -> Any:
            with torch.profiler.record_function(name):
                return function(*args, **kwargs)

        return super().wrap(name, named)

    def profile(self, name: str) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(super().profile(name))
        stack.enter_context(torch.profiler.record_function(name))
        return stack

    def step(self) -> None:
        if self.profiler is not None:
            self.profiler.step()

    def stop(self) -> None:
        if self._lt_began is None:
            return
        self._lt_open.close()
        if self.profiler is not None and not self._lt_operators:
            self._lt_note(self.profiler)
        self.profiler = None
        super().stop()

    def summary(self) -> str:
        return f"{super().summary()}\n{self._lt_operators}".rstrip()

    @property
    def trace_dir(self) -> Path | str:
        """Where the traces go; a URL where that is one."""
        folder = self.dirpath if self.dirpath is not None else f"{self._lt_log_dir or '.'}/profile"
        return str(folder) if is_remote(folder) else Path(folder)

    def _lt_make(self) -> torch_profiler.profile:
        kwargs = dict(self._profiler_kwargs)
        kinds = torch_profiler.ProfilerActivity
        activities = [kinds.CPU, *([kinds.CUDA] if torch.cuda.is_available() else [])]
        kwargs.setdefault("activities", activities)
        kwargs.setdefault("schedule", torch_profiler.schedule(wait=1, warmup=1, active=3, repeat=1))
        kwargs.setdefault("record_shapes", self._lt_by_shapes)
        kwargs.setdefault("acc_events", True)  # the table is read after a cycle's end, which would clear it
        theirs = kwargs.pop("on_trace_ready", None)

        def ready(profiler: torch_profiler.profile) -> None:
            self._lt_note(profiler)
            if theirs is not None:
                theirs(profiler)
            elif self._lt_exports:
                self._lt_export(profiler)

        return torch_profiler.profile(on_trace_ready=ready, **kwargs)

    def _lt_note(self, profiler: torch_profiler.profile) -> None:
        """Keep the table of operators; where nothing was traced there is none."""
        try:
            averages = profiler.key_averages(group_by_input_shape=self._lt_by_shapes)
        except AssertionError:  # torch's word for a profiler that never recorded
            return
        device_time = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        key = self._sort_by_key or device_time
        self.function_events = profiler.events()  # type: ignore[no-untyped-call]
        self._lt_operators = averages.table(sort_by=key, row_limit=self._row_limit, **self._table_kwargs)

    def _lt_export(self, profiler: torch_profiler.profile) -> None:
        with local_folder(self.trace_dir) as folder:
            worker = f"{self.stage}-rank{process_rank()}"
            torch_profiler.tensorboard_trace_handler(str(folder), worker_name=worker)(profiler)


def _check(given: dict[str, Any], sort_by_key: str | None) -> None:
    known = set(inspect.signature(torch_profiler.profile.__init__).parameters) - {"self"}
    for name in given:
        if name not in known:
            raise ConfigError(
                f"PyTorchProfiler({name}=...): torch.profiler.profile has no such argument."
                f"{did_you_mean(name, known)} Known: {', '.join(sorted(known))}.",
                code="LT178",
            )
    schedule = given.get("schedule", lambda step: torch_profiler.ProfilerAction.NONE)
    if not callable(schedule) or not isinstance(schedule(0), torch_profiler.ProfilerAction):
        raise ConfigError(
            f"PyTorchProfiler(schedule={schedule!r:.80}): expected a function of the step that returns a "
            "torch.profiler.ProfilerAction. Write schedule=torch.profiler.schedule(wait=1, warmup=1, active=3).",
            code="LT178",
        )
    key = re.sub("cuda|xpu", "device", sort_by_key or "count")  # as torch reads it
    if not hasattr(FunctionEventAvg(), key):
        raise ConfigError(
            f"PyTorchProfiler(sort_by_key={sort_by_key!r}): the report has no such column. Write 'cpu_time_total' or "
            "'self_cuda_time_total', for instance.",
            code="LT178",
        )
