"""Averages of the weights of a run: EMA, SWA, any other.

Names load when they are used; importing this package costs nothing.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "EMAWeightAveraging": ".weight_averaging",
    "ScheduleFree": ".schedule_free",
    "StochasticWeightAveraging": ".stochastic_weight_avg",
    "WeightAveraging": ".weight_averaging",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
