"""Which values of an epoch are the best so far."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lt_callbacks.progress.history import BEST
from lt_callbacks.progress.phase import format_value

_VALIDATION = re.compile(r"(val|valid|validation)[_/.]")
_MODES = {"loss": "min", "acc": "max", "accuracy": "max"}
"""Mode of a validation metric without a monitor, by the last word of its name."""


class BestValues:
    """Remembers the best value of each metric whose direction is known.

    Args:
        callbacks: callbacks of the run, with their monitored metrics and the best values before a resume.
    """

    def __init__(self, callbacks: Iterable[Any] = ()) -> None:
        self._modes: dict[str, str] = {}
        self._lt_best: dict[str, float] = {}
        for callback in callbacks:
            monitor, score = getattr(callback, "monitor", None), getattr(callback, "best_model_score", None)
            if isinstance(monitor, str):
                self._modes[monitor] = getattr(callback, "mode", "")
                if score is not None:
                    self._lt_best[monitor] = float(score)

    def rank(self, name: str) -> int:
        """Return 0 for a metric that is monitored, 1 for a loss or an accuracy of validation, 2 for any other."""
        return 0 if name in self._modes else 2 - bool(_mode_by_name(name))

    def marked(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics, the best values so far as text with a mark."""
        shown = dict(metrics)
        for name, value in metrics.items():
            mode = self._modes.get(name, _mode_by_name(name))
            if mode in ("min", "max") and isinstance(value, int | float) and math.isfinite(value):
                sign = 1.0 if mode == "max" else -1.0
                if sign * value > sign * self._lt_best.get(name, -sign * math.inf):
                    self._lt_best[name] = float(value)
                    shown[name] = format_value(value) + BEST
        return shown


def _mode_by_name(name: str) -> str:
    return _MODES.get(re.split(r"[_/.]", name)[-1], "") if _VALIDATION.match(name) else ""
