"""A progress bar drawn by rich."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from lt_callbacks.progress.phase import Display, Metrics, Phase, format_metrics, format_seconds
from lt_callbacks.progress.progress_bar import ProgressBar
from lt_callbacks.progress.stdout_guard import LogRedirect
from lt_core import plugins
from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task, TaskID

    from lt_core.trainer import TrainerAPI

__all__ = ["RichProgressBar", "RichProgressBarTheme"]

_INTERVAL = 0.1


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
        metrics_text_delimiter: what stands between two metrics.
        metrics_format: format of numbers, such as ``".3f"``; None chooses by size.
    """

    description: str = ""
    progress_bar: str = "#6206E0"
    progress_bar_finished: str = "#6206E0"
    progress_bar_pulse: str = "#6206E0"
    batch_progress: str = ""
    time: str = "dim"
    processing_speed: str = "dim underline"
    metrics: str = "italic"
    metrics_text_delimiter: str = " "
    metrics_format: str | None = None


class RichProgressBar(ProgressBar):
    """Progress bars by rich (``pip install lt-callbacks[rich]``).

    To change the columns, override :meth:`configure_columns`.

    Args:
        refresh_rate: show every so many batches only (still 10 times a second at most); 0 shows nothing.
        leave: keep a finished line for each epoch.
        theme: colours and texts.
        console_kwargs: arguments for ``rich.console.Console``.

    Raises:
        ConfigError: where rich is not installed, or for a negative ``refresh_rate``.
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
        try:
            import rich  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                f"RichProgressBar needs rich: {plugins.install_hint('lt-callbacks[rich]')}", code="LT173"
            ) from error
        self._leave = leave
        self.theme = theme if theme is not None else RichProgressBarTheme()
        self._console_kwargs = console_kwargs or {}

    def make_display(self) -> Display:
        """Return the bars."""
        from rich.console import Console
        from rich.progress import Progress

        columns = self.configure_columns(self.trainer)
        console = Console(**self._console_kwargs)
        redirect = sys.stderr is not None and sys.stderr.isatty()  # a file that takes stderr shall still get it
        progress = Progress(*columns, auto_refresh=False, console=console, expand=True, redirect_stderr=redirect)
        return _RichDisplay(progress, self._leave, self.theme)

    def configure_columns(self, trainer: TrainerAPI) -> list[ProgressColumn]:
        """Return the columns; a task's ``fields`` hold ``count``, ``times``, ``speed`` and ``metrics`` as text."""
        from rich.progress import BarColumn, TextColumn

        theme = self.theme
        return [
            TextColumn("{task.description}", style=theme.description or "none"),
            BarColumn(
                bar_width=None,
                complete_style=theme.progress_bar,
                finished_style=theme.progress_bar_finished,
                pulse_style=theme.progress_bar_pulse,
            ),
            _field("count", theme.batch_progress),
            _field("times", theme.time),
            _field("speed", theme.processing_speed),
            _field("metrics", theme.metrics),
        ]


class _RichDisplay:
    """Draws phases as tasks of one ``rich.progress.Progress``, which keeps prints above itself."""

    delay = 0.0

    def __init__(self, progress: Progress, leave: bool, theme: RichProgressBarTheme) -> None:
        self._progress = progress
        self._leave = leave
        self._theme = theme
        self._tasks: dict[str, TaskID] = {}
        self._drawn = 0.0
        self._logs = LogRedirect()
        before = sys.stdout, sys.stderr
        progress.start()
        for old, new in zip(before, (sys.stdout, sys.stderr), strict=True):
            self._logs.open(old, new)

    def interval(self, phase: Phase) -> float:
        return _INTERVAL

    def update(self, phase: Phase, metrics: Metrics) -> None:
        task = self._tasks.get(phase.kind)
        if task is None and phase.over:
            return  # its line stands already
        if task is None:
            task = self._tasks[phase.kind] = self._progress.add_task("", total=None)
        theme = self._theme
        shown = {} if phase.nested else metrics()
        self._progress.update(
            task,
            description=phase.description,
            total=phase.total,
            completed=phase.done,
            count=phase.count,
            times=f"{format_seconds(phase.elapsed)} • {format_seconds(phase.remaining)}",
            speed=phase.speed,
            metrics=format_metrics(shown, theme.metrics_text_delimiter, theme.metrics_format),
        )
        self._progress.refresh()
        self._drawn = monotonic()

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        stays = phase.kind == "train" and not self._leave
        if stays and monotonic() - self._drawn < _INTERVAL:
            return  # the next epoch, or the end, draws it
        if phase.kind in self._tasks or not (phase.nested or phase.kind == "sanity"):
            self.update(phase, metrics)
        if not stays:
            task = self._tasks.pop(phase.kind, None)
            if task is not None and (phase.nested or phase.kind == "sanity"):
                self._progress.remove_task(task)

    def resume(self, phase: Phase) -> None:
        """Do nothing: times are the phase's own."""

    def close(self) -> None:
        self._logs.close()
        self._progress.stop()


def _field(name: str, style: str) -> ProgressColumn:
    from rich.progress import ProgressColumn
    from rich.text import Text

    render: Callable[[ProgressColumn, Task], Text] = lambda _, task: Text(task.fields.get(name, ""), style=style)  # noqa: E731
    return type(f"{name.title()}Column", (ProgressColumn,), {"render": render})()  # type: ignore[no-any-return]
