"""Lightning's name for the bar, with tqdm's methods over it; a tqdm of the user's own takes its place."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from lt_callbacks.arguments import whole
from lt_callbacks.progress.phase import Display, Metrics, Phase, convert_inf, format_metrics
from lt_callbacks.progress.rich_progress import INTERVAL, RichDisplay, RichProgressBar
from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError
from lt_core.plugins import install_hint
from lt_core.terminal import say

__all__ = ["PhaseBar", "TQDMProgressBar", "convert_inf"]

Number = TypeVar("Number", int, float)

_NAMES = {
    "sanity": ("init_sanity_tqdm", "val_progress_bar"),
    "train": ("init_train_tqdm", "train_progress_bar"),
    "validate": ("init_validation_tqdm", "val_progress_bar"),
    "test": ("init_test_tqdm", "test_progress_bar"),
    "predict": ("init_predict_tqdm", "predict_progress_bar"),
}
"""The method that makes the bar of each kind of phase, and the attribute that holds it."""


class PhaseBar:
    """Offers tqdm's methods over a bar that is drawn by the clock.

    Attributes:
        desc: text before the bar.
        disable: whether the bar is not drawn.
    """

    def __init__(self, desc: str = "") -> None:
        self.show(Phase(kind="", description=desc))
        self.disable = True

    def show(self, phase: Phase) -> None:
        """Become the bar of ``phase``."""
        self._lt_phase, self.desc, self.disable = phase, phase.description, False

    @property
    def n(self) -> int:
        """Batches done."""
        return self._lt_phase.done

    @property
    def total(self) -> int | None:
        """Batches in all; None where unknown."""
        return self._lt_phase.total

    @total.setter
    def total(self, total: float | None) -> None:
        self._lt_phase.total = convert_inf(total)

    def reset(self, total: float | None = None) -> None:
        self.total = self.total if total is None else total

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """Set the text before the bar, until the next epoch, validation... begins."""
        self.desc = self._lt_phase.label = desc or ""

    set_description_str = set_description

    def set_postfix(self, ordered_dict: Any = None, refresh: bool = True, **values: Any) -> None:
        """Set the text after the bar, before the metrics."""
        self.set_postfix_str(format_metrics({**dict(ordered_dict or {}), **values}))

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        self._lt_phase.postfix = s

    @staticmethod
    def write(s: object, file: Any = None, end: str = "\n", nolock: bool = False) -> None:
        """Print above the bar."""
        say(s, end=end, **({"file": file} if file is not None else {}))

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the clock decides when to draw."""

    clear = close = display = refresh = unpause = update


class TQDMProgressBar(RichProgressBar):
    """The bar of :class:`RichProgressBar`, with the members of Lightning's bar by tqdm.

    ``train_progress_bar``, ``val_progress_bar``, ``test_progress_bar`` and ``predict_progress_bar`` are the bars, with
    tqdm's methods: ``set_description``, ``set_postfix``, ``write``... To have a bar drawn by tqdm, override
    ``init_train_tqdm`` (or its siblings for validation, test, prediction, sanity check) and return a tqdm of your own;
    all bars of the run are tqdm's from there on.

    Args:
        refresh_rate: show only every this many batches (still 10 times a second at most); 0 shows nothing. As for bars
            of tqdm, ``TQDM_MINITERS`` and ``TQDM_MININTERVAL`` (seconds) in the environment make it rarer.
        process_position: lines to leave free above bars of tqdm, for several in one terminal.
        leave: keep the finished bar of each epoch, in place of its row.

    Raises:
        ConfigError: for a negative ``refresh_rate`` or ``process_position``.
    """

    @checks_arguments
    def __init__(self, refresh_rate: int = 1, process_position: int = 0, leave: bool = False) -> None:
        super().__init__(_at_least("TQDM_MINITERS", refresh_rate) if refresh_rate else 0, leave)
        self._process_position = whole("TQDMProgressBar", "process_position", process_position)
        self._lt_interval = _at_least("TQDM_MININTERVAL", INTERVAL)
        self._lt_bars: dict[str, Any] = {}

    @property
    def process_position(self) -> int:
        """Lines left free above bars of tqdm."""
        return self._process_position

    @property
    def draws_itself(self) -> bool:
        """Whether it draws off a terminal too: where a bar was overridden, as that may draw anywhere."""
        return super().draws_itself or any(map(self._lt_is_overridden, _NAMES))

    def _lt_is_overridden(self, kind: str) -> bool:
        maker = _NAMES[kind][0]
        return getattr(type(self), maker) is not getattr(TQDMProgressBar, maker)

    def _lt_begin(self, phase: Phase) -> None:
        phase.apart = self._lt_is_overridden("validate")
        super()._lt_begin(phase)
        if self.is_enabled:
            if phase.kind != "train":  # one is kept for all epochs
                self._lt_bars.pop(phase.kind, None)
            self._lt_bar_of(phase)

    def _lt_bar_of(self, phase: Phase) -> Any:
        """Return the bar of a phase, made where there is none; the first of the user's own makes all bars tqdm's."""
        bar = self._lt_bars.get(phase.kind)
        if bar is None:
            if isinstance(self._lt_display, RichDisplay) and self._lt_is_overridden(phase.kind):
                self._lt_display.pause()  # a tqdm that is made meanwhile would write to rich's stdout
            bar = getattr(self, _NAMES[phase.kind][0])()
            if not isinstance(bar, PhaseBar) and not self._lt_uses_tqdm:
                assert self._lt_display is not None
                self._lt_display.close()
                self._lt_display, self._lt_bars = _TqdmDisplay(self), {}
            self._lt_bars[phase.kind] = bar
        if isinstance(bar, PhaseBar):
            bar.show(phase)
        return bar

    def _lt_close(self) -> None:
        super()._lt_close()
        self._lt_bars = {}

    @property
    def _lt_uses_tqdm(self) -> bool:
        return isinstance(self._lt_display, _TqdmDisplay)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Answer ``train_progress_bar`` and its siblings: the bar that is drawn, else one that draws nothing."""
            kinds = [kind for kind, (_, attribute) in _NAMES.items() if attribute == name]
            if not kinds:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            bars = [self._lt_bars[kind] for kind in kinds if kind in self._lt_bars]
            return bars[-1] if bars else PhaseBar()

    def init_sanity_tqdm(self) -> Any:
        """Return the bar of the sanity check."""
        return self._lt_make(self.sanity_check_description, leave=False)

    def init_train_tqdm(self) -> Any:
        """Return the bar of the training epochs."""
        return self._lt_make(self.train_description)

    def init_validation_tqdm(self) -> Any:
        """Return the bar of validation. Inside an epoch the epoch's line is used, unless this method is overridden."""
        return self._lt_make(self.validation_description, leave=self.trainer.stage != "fit")

    def init_test_tqdm(self) -> Any:
        """Return the bar of a test."""
        return self._lt_make(self.test_description)

    def init_predict_tqdm(self) -> Any:
        """Return the bar of a prediction."""
        return self._lt_make(self.predict_description)

    def _lt_make(self, description: str, *, leave: bool = True) -> Any:
        if not self._lt_uses_tqdm:
            return PhaseBar(description)
        position = 2 * self._process_position + (not leave)
        return _tqdm_class()(desc=description, position=position, leave=leave, dynamic_ncols=True)


class _TqdmDisplay(Display):
    """Moves bars of tqdm on, the user's own among them."""

    delay = 0.0

    def __init__(self, owner: TQDMProgressBar) -> None:
        self._owner = owner
        self._begun: dict[str, Phase] = {}

    def interval(self, phase: Phase) -> float:
        return self._owner._lt_interval

    def update(self, phase: Phase, metrics: Metrics) -> None:
        if phase.over:
            return  # its bar is closed
        bar = self._owner._lt_bar_of(phase)
        if self._begun.get(phase.kind) is not phase:
            self._begun[phase.kind] = phase
            bar.set_description_str(phase.description, refresh=False)
            # tqdm counts its rate from initial: a resumed epoch would seem to have done the rest in no time
            bar.initial = phase.first
            bar.reset(phase.total)
            bar.n = phase.first
        if not phase.nested:
            bar.set_postfix_str(format_metrics(metrics()), refresh=False)
        if phase.done > bar.n:
            bar.update(phase.done - bar.n)
        bar.refresh()

    def finish(self, phase: Phase, metrics: Metrics) -> None:
        self.update(phase, metrics)
        self._owner._lt_bars.pop(phase.kind).close()

    def close(self) -> None:
        for bar in reversed(self._owner._lt_bars.values()):
            bar.close()
        self._owner._lt_bars = {}


def _at_least(variable: str, own: Number) -> Number:
    """Return ``own``, or the number in the environment's ``variable`` where that is larger."""
    given = os.environ.get(variable, "")
    try:
        return max(own, type(own)(float(given))) if given else own
    except ValueError:
        raise ConfigError(f"{variable}={given!r} in the environment: expected a number.", code="LT580") from None


def _tqdm_class() -> Any:
    try:
        return import_module("tqdm.auto").tqdm
    except ModuleNotFoundError as error:
        text = f"A bar of tqdm's own needs tqdm, which lt's bar does not: {install_hint('tqdm')}"
        raise ModuleNotFoundError(text, name=error.name) from error


def __getattr__(name: str) -> Any:
    """Answer ``Tqdm``: tqdm's class, for bars of one's own; it needs tqdm."""
    if name == "Tqdm":
        return _tqdm_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
