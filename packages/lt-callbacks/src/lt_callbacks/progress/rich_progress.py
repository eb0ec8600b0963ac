"""The progress bar, drawn by rich."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lt_callbacks.progress.history import History
from lt_callbacks.progress.lines import LineDisplay
from lt_callbacks.progress.phase import Display, Metrics, Phase, fit_metrics
from lt_callbacks.progress.progress_bar import ProgressBar, is_live
from lt_core.arguments import checks_arguments
from lt_core.terminal import LossyStream
from lt_core.trainer import TrainerAPI

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

__all__ = ["RichProgressBar", "RichProgressBarTheme"]

INTERVAL = 0.1
"""Seconds between two drawings."""

_LEAST_BAR = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class RichProgressBarTheme:
    """Colours and texts of a :class:`RichProgressBar`; styles are rich's (``"bold red"``, ``"#6206E0"``).

    Attributes:
        description: style of the text in front.
        progress_bar: style of the bar.
        progress_bar_finished: style of a full bar.
        progress_bar_pulse: style of a bar whose end is unknown.
        batch_progress: style of ``12/340``.
        time: style of elapsed and remaining time.
        processing_speed: style of the rate.
        metrics: style of the metrics.
        metrics_text_delimiter: separator of metrics.
        metrics_format: format of numbers, such as ``".3f"``; None chooses by size.
    """

    description: str = ""
    progress_bar: str = "#9b87f5"
    progress_bar_finished: str = "#9b87f5"
    progress_bar_pulse: str = "#9b87f5"
    batch_progress: str = ""
    time: str = "dim"
    processing_speed: str = "dim"
    metrics: str = ""
    metrics_text_delimiter: str = " "
    metrics_format: str | None = None


class RichProgressBar(ProgressBar):
    """Progress bars by rich: one line for the epoch and the validation in it, below a row for each epoch done.

    To change the columns, override :meth:`configure_columns`.

    Args:
        refresh_rate: show only every this many batches (still 10 times a second at most); 0 shows nothing.
        leave: keep the finished bar of each epoch, in place of its row.
        theme: colours and texts.
        console_kwargs: arguments for ``rich.console.Console``.

    Raises:
        ConfigError: for a negative ``refresh_rate``.
    """

    @checks_arguments
    def __init__(
        self,
        refresh_rate: int = 1,
        leave: bool = False,
        theme: RichProgressBarTheme | None = None,
        console_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(refresh_rate)
        self._lt_interval, self._leave = INTERVAL, leave
        self.theme = theme if theme is not None else RichProgressBarTheme()
        self._console_kwargs = console_kwargs or {}

    def make_display(self) -> Display:
        """Return the bars; lines where nothing can be drawn over."""
        if not is_live():
            return LineDisplay()
        from rich.console import Console
        from rich.progress import Progress

        columns = self.configure_columns(self.trainer)
        console = Console(**{"file": LossyStream(sys.stdout), **self._console_kwargs})
        redirect = LossyStream(sys.stderr).isatty()  # a file that stderr goes to still gets it
        progress = Progress(*columns, auto_refresh=False, console=console, expand=True, redirect_stderr=redirect)
        return RichDisplay(progress, self._lt_interval, self._leave, self.theme)

    def configure_columns(self, trainer: TrainerAPI) -> list[ProgressColumn]:
        """Return the columns; a task's ``fields`` hold ``count``, ``times``, ``speed`` and ``metrics`` as text."""
        from rich.progress import BarColumn
        from rich.table import Column

        theme = self.theme
        return [
            _text("description", theme.description),
            BarColumn(
                bar_width=None,
                table_column=Column(ratio=1),
                complete_style=theme.progress_bar,
                finished_style=theme.progress_bar_finished,
                pulse_style=theme.progress_bar_pulse,
            ),
            _text("fields[count]", theme.batch_progress),
            _text("fields[times]", theme.time),
            _text("fields[speed]", theme.processing_speed),
            _text("fields[metrics]", theme.metrics),
        ]


class RichDisplay(Display):
    """Draws phases as tasks of one ``rich.progress.Progress``, which keeps prints above itself."""

    delay = 0.0

    def __init__(self, progress: Progress, interval: float, leave: bool, theme: RichProgressBarTheme) -> None:
        self._progress, self._lt_interval, self._leave, self._theme = progress, interval, leave, theme
        self._tasks: dict[str, TaskID] = {}
        self._shown: dict[str, Phase] = {}
        self._history = History()
        self._cell: Any = None  # the place of the bars in a notebook
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []

    def interval(self, phase: Phase) -> float:
        return self._lt_interval

    def update(self, phase: Phase, metrics: Metrics) -> None:
        slot = self._slot(phase)
        task = self._tasks.get(slot)
        if phase.over and (task is None or self._has_row(phase)):
            return  # its line is there already
        if not self._progress.live.is_started:
            self._lt_start()
        if task is None:
            task = self._tasks[slot] = self._progress.add_task("", total=None, count="", times="", speed="", metrics="")
        self._shown[slot] = phase
        theme, room = self._theme, self._progress.console.width - _LEAST_BAR
        room -= len(f"{phase.label} {phase.count} {phase.times} {phase.speed} {phase.postfix} ")
        shown = fit_metrics(metrics(), room, theme.metrics_text_delimiter, theme.metrics_format)
        self._progress.update(
            task,
            description=phase.label,
            total=phase.total,
            completed=phase.done,
            count=phase.count,
            times=phase.times,
            speed=phase.speed,
            metrics=f"{phase.postfix} {shown}".lstrip(),
        )
        self._progress.refresh()

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        if self._has_row(phase):
            from rich.text import Text

            row = self._history.add(phase, metrics(), self._progress.console.width)
            self._progress.console.print(Text.from_ansi(row), soft_wrap=True)
            return  # the next epoch, or the end, draws the bar
        if phase.nested and self._slot(phase) == "train":
            return
        passing = phase.nested or phase.kind == "sanity"
        if phase.kind in self._tasks or not passing:
            self.update(phase, metrics)
        task = self._tasks.pop(phase.kind, None)
        if task is not None and passing:
            self._progress.remove_task(task)

    def _has_row(self, phase: Phase) -> bool:
        """Return whether a finished phase is shown as a row."""
        return phase.kind == "train" and not self._leave

    def _slot(self, phase: Phase) -> str:
        """Return which bar shows a phase: a validation in an epoch has the epoch's."""
        return "train" if phase.nested and not phase.apart and "train" in self._tasks else phase.kind

    def resume(self, phase: Phase) -> None:
        self._shown["train"] = phase

    def close(self) -> None:
        task = self._tasks.pop("train", None)
        if task is not None and self._shown["train"].over and self._has_row(self._shown["train"]):
            self._progress.remove_task(task)
        self.pause(erased=not self._progress.tasks)

    def pause(self, *, erased: bool = True) -> None:
        """Give the streams back until the next update, with the bars erased or left standing."""
        for handler, stream in self._moved:
            handler.setStream(stream)
        self._moved = []
        if self._cell:  # a saved notebook, which has no widgets, would show "Output()"
            self._cell.update({} if erased else self._progress, raw=erased)
        self._progress.live.transient = erased
        self._progress.stop()

    def _lt_start(self) -> None:
        """Print and log above the bar."""
        before = sys.stdout, sys.stderr
        if self._progress.console.is_jupyter:
            self._progress.live.ipy_widget = widget = import_module("ipywidgets").Output()
            self._cell = import_module("IPython.display").display(widget, display_id=True)
        self._progress.start()
        for old, new in zip(before, (sys.stdout, sys.stderr), strict=True):
            for logger in [logging.root, *logging.root.manager.loggerDict.values()]:
                for handler in getattr(logger, "handlers", ()):
                    if isinstance(handler, logging.StreamHandler) and handler.stream is old and old is not new:
                        handler.setStream(new)
                        self._moved.append((handler, old))


def _text(member: str, style: str) -> ProgressColumn:
    from rich.progress import TextColumn
    from rich.table import Column

    # markup: a bracket that is no style's would end the training
    return TextColumn(f"{{task.{member}}}", style=style, markup=False, table_column=Column(no_wrap=True))
