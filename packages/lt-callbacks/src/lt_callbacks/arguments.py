"""Checks of arguments of callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from numbers import Integral, Real

from lt_core.errors import ConfigError, did_you_mean
from lt_core.plugins import install_hint
from lt_core.trainer import TrainerAPI

__all__ = ["choice", "number", "require_logger", "require_package", "whole"]


def whole(who: str, name: str, value: object, least: int = 0, meaning: str = "") -> int:
    """Return ``value``, a whole number of at least ``least``; numpy's too.

    Raises:
        ConfigError: for anything else; ``meaning`` explains special values.
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    hint = f", {meaning}." if meaning else "."
    hint += (
        f" Write {name}={int(value)}, without quotes." if isinstance(value, str) and value.strip().isdecimal() else ""
    )
    raise ConfigError(f"{who}({name}={value!r}): expected a whole number, {least} or more{hint}", code="LT171")


def number(who: str, name: str, value: object, least: float | None = None) -> float:
    """Return ``value`` as a float, at least ``least``.

    Raises:
        ConfigError: for anything else.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and (least is None or float(value) >= least):
        return float(value)
    hint = f" of at least {least:g}" if least is not None else ""
    raise ConfigError(f"{who}({name}={value!r}): expected a number{hint}.", code="LT172")


def choice(who: str, name: str, value: object, allowed: Iterable[str]) -> str:
    """Return ``value``, one of ``allowed``.

    Raises:
        ConfigError: for anything else.
    """
    known = [str(word) for word in allowed]
    if isinstance(value, str) and value in known:
        return value
    raise ConfigError(
        f"{who}({name}={value!r}): expected {' or '.join(map(repr, known))}.{did_you_mean(str(value), known)}",
        code="LT175",
    )


def require_logger(who: str, trainer: TrainerAPI) -> None:
    """Raise if a callback that sends to loggers has none."""
    if not trainer.loggers:
        raise ConfigError(
            f"{who} sends to loggers, and the Trainer has none. Take Trainer(logger=True), or remove the callback.",
            code="LT533",
        )


def require_package(who: str, package: str, brought_by: str, instead: str = "") -> None:
    """Raise if ``package`` cannot be imported; ``instead`` is an alternative to installing ``brought_by``."""
    try:
        import_module(package.replace("-", "_"))
    except ImportError as error:
        raise ConfigError(f"{who} needs {package}: {install_hint(brought_by)}{instead}", code="LT173") from error
