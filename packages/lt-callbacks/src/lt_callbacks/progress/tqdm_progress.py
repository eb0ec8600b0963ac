"""The default progress bar, drawn by tqdm on a terminal and as a widget in a notebook."""

from __future__ import annotations

import math
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from lt_callbacks.arguments import whole
from lt_callbacks.progress.phase import Display, Metrics, Phase, format_metrics
from lt_callbacks.progress.progress_bar import ProgressBar, in_notebook
from lt_callbacks.progress.stdout_guard import StdoutGuard, raw_stdout
from lt_core.arguments import checks_arguments

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["TQDMProgressBar"]

_INTERVAL = 0.1
"""Seconds between two drawings."""

_ATTRIBUTE = {
    "sanity": "val_progress_bar",
    "train": "train_progress_bar",
    "validate": "val_progress_bar",
    "test": "test_progress_bar",
    "predict": "predict_progress_bar",
}
"""Where users find the bar of a kind."""


class TQDMProgressBar(ProgressBar):
    """Progress bars by tqdm: one line for the epochs, one below it while validation runs.

    To change a bar, override ``init_train_tqdm`` (or its siblings for validation, test, prediction, sanity check) and
    return a tqdm of your own. ``train_progress_bar``, ``val_progress_bar``, ``test_progress_bar`` and
    ``predict_progress_bar`` are the bars themselves; where none is drawn, as off a terminal, one that draws nothing.

    Args:
        refresh_rate: show every so many batches only (still 10 times a second at most); 0 shows nothing.
        process_position: lines to leave free above the bar, for several bars in one terminal.
        leave: keep a finished line for each epoch.

    Raises:
        ConfigError: for a negative ``refresh_rate`` or ``process_position``.
    """

    @checks_arguments
    def __init__(self, refresh_rate: int = 1, process_position: int = 0, leave: bool = False) -> None:
        super().__init__(refresh_rate)
        self._process_position = whole("TQDMProgressBar", "process_position", process_position)
        self._leave = leave

    @property
    def process_position(self) -> int:
        """Lines left free above the bar."""
        return self._process_position

    def make_display(self) -> Display:
        """Return the bars."""
        return _TqdmDisplay(self, self._leave)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Answer ``train_progress_bar`` and its siblings: the bar that is drawn, else one that draws nothing."""
            kinds = [kind for kind, attribute in _ATTRIBUTE.items() if attribute == name]
            if not kinds:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            phases = [phase for phase in (self._phase, self._outer) if phase is not None and phase.kind in kinds]
            if phases and isinstance(self._display, _TqdmDisplay):
                return self._display.bar_of(phases[0])
            return _tqdm_class()(disable=True)

    def init_sanity_tqdm(self) -> tqdm[Any]:
        """Return the bar of the sanity check."""
        return self._make(self.sanity_check_description, nested=False, leave=False)

    def init_train_tqdm(self) -> tqdm[Any]:
        """Return the bar of the training epochs."""
        return self._make(self.train_description, nested=False, leave=True)

    def init_validation_tqdm(self) -> tqdm[Any]:
        """Return the bar of validation; inside an epoch it stands below the epoch's and disappears at the end."""
        nested = self.trainer.stage == "fit"
        return self._make(self.validation_description, nested=nested, leave=not nested)

    def init_test_tqdm(self) -> tqdm[Any]:
        """Return the bar of a test."""
        return self._make(self.test_description, nested=False, leave=True)

    def init_predict_tqdm(self) -> tqdm[Any]:
        """Return the bar of a prediction."""
        return self._make(self.predict_description, nested=False, leave=True)

    def _make(self, description: str, *, nested: bool, leave: bool) -> tqdm[Any]:
        return _tqdm_class()(
            desc=description,
            position=2 * self._process_position + nested,
            leave=leave,
            dynamic_ncols=True,
            file=None if in_notebook() else raw_stdout(),
            mininterval=0,
            miniters=1,
        )


class _TqdmDisplay:
    """Draws phases with tqdm bars: one for training, kept over all epochs, and one for what runs now."""

    delay = 0.0

    def __init__(self, owner: TQDMProgressBar, leave: bool) -> None:
        self._owner = owner
        self._leave = leave
        self._bars: dict[str, tqdm[Any]] = {}
        self._shown: dict[str, Phase] = {}
        self._visible = False
        self._drawn = 0.0
        self._guard = StdoutGuard(self._clear, self._redraw)
        if not in_notebook():
            self._guard.open()

    def interval(self, phase: Phase) -> float:
        return _INTERVAL

    def update(self, phase: Phase, metrics: Metrics) -> None:
        if phase.over and phase.kind not in self._bars:
            return  # its line stands already
        self._guard.settle()
        bar = self.bar_of(phase)
        bar.set_postfix_str(format_metrics(metrics()) if not phase.nested else "", refresh=False)
        if phase.done > bar.n:
            bar.update(phase.done - bar.n)
        else:
            bar.refresh()
        self._visible, self._drawn = True, monotonic()

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        stays = phase.kind == "train" and not self._leave
        if stays and monotonic() - self._drawn < _INTERVAL:
            return  # the next epoch, or the end, draws it
        if phase.kind in self._bars or not (phase.nested or phase.kind == "sanity"):
            self.update(phase, metrics)
        if not stays:
            self._end(phase.kind)

    def resume(self, phase: Phase) -> None:
        bar = self._bars.get(phase.kind)
        if bar is not None:
            bar.unpause()

    def close(self) -> None:
        for kind in reversed(list(self._bars)):
            self._end(kind)
        self._guard.close()

    def _end(self, kind: str) -> None:
        bar = self._bars.pop(kind, None)
        if bar is not None:
            bar.close()
        self._visible = bool(self._bars)

    def bar_of(self, phase: Phase) -> tqdm[Any]:
        """Return the bar of a phase; made, or begun anew, where it was not shown yet."""
        bar = self._bars.get(phase.kind)
        if bar is None:
            bar = self._bars[phase.kind] = self._make(phase.kind)
        if self._shown.get(phase.kind) is not phase:
            self._shown[phase.kind] = phase
            bar.set_description_str(phase.description, refresh=False)
            bar.initial = phase.first
            bar.total = phase.total
            bar.reset(phase.total)
            bar.n = bar.last_print_n = phase.first
            bar.start_t -= phase.elapsed
            bar.last_print_t = bar.start_t
        return bar

    def _make(self, kind: str) -> tqdm[Any]:
        owner = self._owner
        makers = {
            "sanity": owner.init_sanity_tqdm,
            "train": owner.init_train_tqdm,
            "validate": owner.init_validation_tqdm,
            "test": owner.init_test_tqdm,
            "predict": owner.init_predict_tqdm,
        }
        return makers[kind]()

    def _clear(self) -> None:
        if self._visible:
            for bar in self._bars.values():
                bar.clear()
            self._visible = False

    def _redraw(self) -> None:
        now = monotonic()
        if self._bars and not self._visible and now - self._drawn >= _INTERVAL:
            for bar in self._bars.values():
                bar.refresh()
            self._visible, self._drawn = True, now


@lru_cache(maxsize=1)
def _tqdm_class() -> type[tqdm[Any]]:
    """Return tqdm for this place, without the thread that watches bars which nobody updates."""
    from tqdm.auto import tqdm as auto

    return type("tqdm", (auto,), {"monitor_interval": 0})


def convert_inf(count: float | None) -> float | None:
    """Return a bar's total: None, for tqdm, where it is unknown."""
    return None if count is None or count in (math.inf, -math.inf) or math.isnan(count) else count


def __getattr__(name: str) -> Any:
    """Answer ``Tqdm``: the class of the bars, for those that make their own."""
    if name == "Tqdm":
        return _tqdm_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
