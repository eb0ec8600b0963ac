"""The default progress bar, drawn by tqdm on a terminal and as a widget in a notebook."""

from __future__ import annotations

import math
import os
from functools import cache
from importlib import import_module
from shutil import get_terminal_size
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from lt_callbacks.arguments import whole
from lt_callbacks.progress.history import History, in_colour
from lt_callbacks.progress.notebook import NotebookLine, has_widgets
from lt_callbacks.progress.phase import Display, Metrics, Phase, fit_metrics, format_metrics
from lt_callbacks.progress.progress_bar import ProgressBar, in_notebook
from lt_callbacks.progress.stdout_guard import StdoutGuard, raw_stdout
from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError
from lt_core.terminal import LossyStream, say

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["TQDMProgressBar"]

Number = TypeVar("Number", int, float)

_INTERVAL = 0.1
"""Seconds between two drawings."""

_LINE = "{desc} {bar} {count}  {times}  {speed}  {metrics}"
_SIGNS = "─╾━"  # not done, half done, done
_LEAST_BAR = 12
_WIDE = 90
"""Columns in a notebook, which has no width of its own."""

_COLOUR = "#9b87f5"

_ATTRIBUTE = {
    "sanity": "val_progress_bar",
    "train": "train_progress_bar",
    "validate": "val_progress_bar",
    "test": "test_progress_bar",
    "predict": "predict_progress_bar",
}
"""Where users find the bar of a kind."""

_MAKER = {
    "sanity": "init_sanity_tqdm",
    "train": "init_train_tqdm",
    "validate": "init_validation_tqdm",
    "test": "init_test_tqdm",
    "predict": "init_predict_tqdm",
}
"""What makes the bar of a kind."""


class TQDMProgressBar(ProgressBar):
    """Progress bars by tqdm: one line for the epoch and the validation in it, below a row for each epoch done.

    To change a bar, override ``init_train_tqdm`` (or its siblings for validation, test, prediction, sanity check) and
    return a tqdm of your own. ``train_progress_bar``, ``val_progress_bar``, ``test_progress_bar`` and
    ``predict_progress_bar`` are the bars themselves; where none is drawn, as off a terminal, one that draws nothing.

    Args:
        refresh_rate: show only every this many batches (still 10 times a second at most); 0 shows nothing. As for all
            bars of tqdm, ``TQDM_MINITERS`` and ``TQDM_MININTERVAL`` (seconds) in the environment make it rarer.
        process_position: lines to leave free above the bar, for several bars in one terminal.
        leave: keep the finished bar of each epoch, in place of its row.

    Raises:
        ConfigError: for a negative ``refresh_rate`` or ``process_position``.
    """

    @checks_arguments
    def __init__(self, refresh_rate: int = 1, process_position: int = 0, leave: bool = False) -> None:
        super().__init__(_at_least("TQDM_MINITERS", refresh_rate) if refresh_rate else 0)
        self._process_position = whole("TQDMProgressBar", "process_position", process_position)
        self._leave = leave

    @property
    def process_position(self) -> int:
        """Lines left free above the bar."""
        return self._process_position

    def make_display(self) -> Display:
        """Return the bars."""
        return _TqdmDisplay(self, self._leave)

    @property
    def draws_itself(self) -> bool:
        """Whether it draws off a terminal too: where a bar was overridden, as that may draw anywhere."""
        return super().draws_itself or any(self._is_overridden(name) for name in _MAKER.values())

    def _is_overridden(self, maker: str) -> bool:
        return getattr(type(self), maker) is not getattr(TQDMProgressBar, maker)

    def _begin(self, phase: Phase) -> None:
        super()._begin(phase)
        if isinstance(self._display, _TqdmDisplay) and self._is_overridden(_MAKER[phase.kind]):
            self._display.bar_of(phase)  # now, however short the phase is: it may do more than draw

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
        """Return the bar of validation. Inside an epoch the epoch's line is used, unless this method is overridden."""
        nested = self.trainer.stage == "fit"
        return self._make(self.validation_description, nested=nested, leave=not nested)

    def init_test_tqdm(self) -> tqdm[Any]:
        """Return the bar of a test."""
        return self._make(self.test_description, nested=False, leave=True)

    def init_predict_tqdm(self) -> tqdm[Any]:
        """Return the bar of a prediction."""
        return self._make(self.predict_description, nested=False, leave=True)

    def _make(self, description: str, *, nested: bool, leave: bool) -> tqdm[Any]:
        notebook = in_notebook()
        widget = notebook and has_widgets()
        return _tqdm_class()(
            desc=description,
            position=2 * self._process_position + nested,
            leave=leave,
            ncols=_WIDE if notebook and not widget else None,
            dynamic_ncols=widget or not notebook,
            file=None if widget else NotebookLine() if notebook else LossyStream(raw_stdout()),
            mininterval=0,
            miniters=1,
            bar_format=_LINE,
            ascii=_signs(),
            colour=_COLOUR if in_colour() and not notebook else None,
        )


class _TqdmDisplay:
    """Draws phases with tqdm bars: one for training and the validation in it, kept over all epochs, and others."""

    delay = 0.0

    def __init__(self, owner: TQDMProgressBar, leave: bool) -> None:
        self._owner = owner
        self._leave = leave
        self._interval = _at_least("TQDM_MININTERVAL", _INTERVAL)
        self._bars: dict[str, Any] = {}
        self._shown: dict[str, Phase] = {}
        self._visible = False
        self._drawn = 0.0
        self._history = History(coloured=in_colour())
        self._said = ""
        self._guard = StdoutGuard(self._clear, self._redraw)
        if not in_notebook():
            self._guard.open()

    def interval(self, phase: Phase) -> float:
        return self._interval

    def update(self, phase: Phase, metrics: Metrics) -> None:
        slot = self._slot(phase)
        if phase.over and (slot not in self._bars or (self._has_row(phase) and not in_notebook())):
            return  # its line is there already
        self._guard.settle()
        bar = self.bar_of(phase)
        self._describe(bar, phase, metrics)
        if phase.done > bar.n:
            bar.update(phase.done - bar.n)
        else:
            bar.refresh()
        self._visible, self._drawn = True, monotonic()

    def _describe(self, bar: Any, phase: Phase, metrics: Metrics) -> None:
        """Set what stands behind the bar; in a line of ours as much as there is room for."""
        if not _is_ours(bar):
            bar.set_postfix_str(format_metrics(metrics()) if not phase.nested else "", refresh=False)
            return
        texts = {"count": phase.count, "times": phase.times, "speed": phase.speed}
        room = self._room() - len(_LINE.format(desc=bar.desc, bar="", metrics="", **texts)) - _LEAST_BAR
        bar.fields = {**texts, "metrics": fit_metrics(metrics(), room)}

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        if self._has_row(phase):
            say(self._history.add(phase, metrics(), self._room()))  # above the bar
            return  # the next epoch, or the end, draws the bar
        stays = phase.nested and self._slot(phase) == "train"
        if not stays and (phase.kind in self._bars or not (phase.nested or phase.kind == "sanity")):
            self.update(phase, metrics)
        if not stays:
            self._end(phase.kind)

    def _has_row(self, phase: Phase) -> bool:
        """Return whether a phase that is over stands as a row; bars that users made stay as they are."""
        return phase.kind == "train" and not self._leave and _is_ours(self.bar_of(phase))

    def _room(self) -> int:
        return _WIDE if in_notebook() else get_terminal_size().columns

    def resume(self, phase: Phase) -> None:
        bar = self._bars.get(phase.kind)
        if bar is not None:
            bar.unpause()
            if self._shown.get("train") is not phase:
                self._begin(bar, phase, self._said)

    def close(self) -> None:
        for kind in reversed(list(self._bars)):
            phase = self._shown.get(kind)
            if phase is not None and phase.over and not in_notebook() and self._has_row(phase):
                self._bars[kind].leave = False
            self._end(kind)
        self._guard.close()

    def _end(self, kind: str) -> None:
        bar = self._bars.pop(kind, None)
        if bar is not None:
            bar.close()
        self._visible = bool(self._bars)

    def bar_of(self, phase: Phase) -> Any:
        """Return the bar of a phase; made, or begun anew, where it was not shown yet."""
        slot = self._slot(phase)
        bar = self._bars.get(slot)
        if bar is None:
            bar = self._bars[slot] = getattr(self._owner, _MAKER[slot])()
        if self._shown.get(slot) is not phase:
            if phase.nested and slot == "train":
                self._said = bar.desc
            self._begin(bar, phase, phase.description)
        return bar

    def _begin(self, bar: Any, phase: Phase, description: str) -> None:
        """Have a bar show another phase from here on."""
        self._shown[self._slot(phase)] = phase
        bar.set_description_str(description, refresh=False)
        bar.initial = phase.first
        bar.total = phase.total
        if not _is_ours(bar) or in_notebook():
            bar.reset(phase.total)
        bar.n = bar.last_print_n = max(phase.first, phase.done)
        bar.start_t = bar._time() - phase.elapsed
        bar.last_print_t = bar.start_t

    def _slot(self, phase: Phase) -> str:
        """Return which bar shows a phase: a validation in an epoch has the epoch's."""
        own = type(self._owner).init_validation_tqdm is not TQDMProgressBar.init_validation_tqdm
        shares = phase.nested and not own and _is_ours(self._bars.get("train"))
        return "train" if shares else phase.kind

    def _clear(self) -> None:
        if self._visible:
            for bar in self._bars.values():
                bar.clear()
            self._visible = False

    def _redraw(self) -> None:
        now = monotonic()
        if self._bars and not self._visible and now - self._drawn >= self._interval:
            for bar in self._bars.values():
                bar.refresh()
            self._visible, self._drawn = True, now


def _signs() -> str | bool:
    """Return the characters of a bar: plain ones where stdout has no lines."""
    encoding = getattr(raw_stdout(), "encoding", None) or "utf-8"
    return _SIGNS if _SIGNS.encode(encoding, "ignore").decode(encoding) == _SIGNS else True


def _is_ours(bar: Any) -> bool:
    """Return whether a bar has our line; one that a user made, or changed, has another."""
    return bar is not None and getattr(bar, "bar_format", None) == _LINE


def _at_least(variable: str, own: Number) -> Number:
    """Return ``own``, or the number in the environment's ``variable`` where that is larger."""
    given = os.environ.get(variable, "")
    try:
        return max(own, type(own)(float(given))) if given else own
    except ValueError:
        raise ConfigError(f"{variable}={given!r} in the environment: expected a number.", code="LT580") from None


def _tqdm_class() -> type[tqdm[Any]]:
    """Return tqdm for this place, without the thread that watches bars which nobody updates."""
    return _with_fields(in_notebook() and has_widgets())


@cache
def _with_fields(widget: bool) -> type[tqdm[Any]]:
    base: Any = import_module("tqdm.notebook" if widget else "tqdm").tqdm

    def format_dict(self: Any) -> dict[str, Any]:
        return {**base.format_dict.fget(self), **self.fields}

    fields = dict.fromkeys(("count", "times", "speed", "metrics"), "")
    return type("tqdm", (base,), {"monitor_interval": 0, "fields": fields, "format_dict": property(format_dict)})


def convert_inf(count: float | None) -> float | None:
    """Return a bar's total: None, for tqdm, where it is unknown."""
    return None if count is None or count in (math.inf, -math.inf) or math.isnan(count) else count


def __getattr__(name: str) -> Any:
    """Answer ``Tqdm``: the class of the bars, for those that make their own."""
    if name == "Tqdm":
        return _tqdm_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
