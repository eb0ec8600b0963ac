"""Spans of time as users write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean
from lt_loops.arguments.problems import shown, type_name

EXPECTED_TIME = "a time: 'DD:HH:MM:SS', datetime.timedelta(minutes=30) or {'minutes': 30}"

_UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
_TEXT = re.compile(r"(\d+):(\d+):(\d+):(\d+)")


def parse_time(value: Any) -> float | None:
    """Return a span of time in seconds, None for None.

    Args:
        value: ``"DD:HH:MM:SS"`` (days, hours, minutes, seconds), a :class:`datetime.timedelta`, or a dict of its
            keyword arguments.

    Raises:
        ConfigError: for text of another form, unknown units, or a span that is not longer than nothing.
        ConfigTypeError: for any other type.
    """
    if value is None:
        return None
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _from_text(value)
    elif isinstance(value, Mapping):
        seconds = _from_units(value)
    else:
        received = f"received {type_name(value)}.{_remedy(value)}"
        raise ConfigTypeError(f"{shown(value)}: expected {EXPECTED_TIME}; {received}", code="LT144")
    if seconds <= 0:
        raise ConfigError(f"{shown(value)}: expected {EXPECTED_TIME} that is longer than nothing.", code="LT144")
    return seconds


def _from_text(text: str) -> float:
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{shown(text)}: expected {EXPECTED_TIME}. Half an hour is '00:00:30:00' (days, hours, minutes, seconds).",
            code="LT144",
        )
    days, hours, minutes, seconds = map(int, match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def _from_units(units: Mapping[Any, Any]) -> float:
    for unit, amount in units.items():
        if unit not in _UNITS:
            hint = did_you_mean(str(unit), _UNITS)
            known = ", ".join(_UNITS)
            raise ConfigError(f"{shown(dict(units))}: expected the units {known}, not {unit!r}.{hint}", code="LT144")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise ConfigTypeError(
                f"{shown(dict(units))}: expected a number of {unit}; received {type_name(amount)}. Write "
                f"{{{unit!r}: 30}}.",
                code="LT144",
            )
    return timedelta(**units).total_seconds()


def _remedy(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f" For seconds write {{'seconds': {value}}}, for hours {{'hours': {value}}}."
