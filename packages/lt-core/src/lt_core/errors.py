"""Errors and warnings of lt: one hierarchy, each with a code that the docs explain.

::

    LtError
    ├── UsageError (ValueError)            mistakes in the user's code
    │   ├── ConfigError                    a wrong argument or a conflict; also known as MisconfigurationException
    │   │   ├── ConfigTypeError (TypeError)    an argument of the wrong type
    │   │   ├── PluginError                an unknown strategy, logger, accelerator... name
    │   │   └── HookError                  a hook that is missing, misspelt or has the wrong signature or return value
    │   ├── DataError                      loaders, samplers, batches
    │   └── LogError                       a wrong call of ``self.log``, an unknown monitor
    ├── CheckpointError (RuntimeError)     a file that cannot be written, read or trusted
    └── RankError (RuntimeError)           processes that disagree or died

    LtWarning (UserWarning)
    └── LtDeprecationWarning (FutureWarning)

Every message says what was expected, what was received and the remedy. It ends with its code in brackets.
"""

from __future__ import annotations

import difflib
import os
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from configparser import RawConfigParser
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from lt_core.terminal import LossyStream, visible

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ConfigTypeError",
    "DataError",
    "HookError",
    "LogError",
    "LtDeprecationWarning",
    "LtError",
    "LtWarning",
    "MisconfigurationException",
    "MissingCheckpointError",
    "PluginError",
    "RankError",
    "UsageError",
    "counterpart",
    "did_you_mean",
    "nearest_name",
    "from_signal_handler",
    "near_files",
    "recording",
    "silence",
    "silenced",
    "warn",
]


class LtError(Exception):
    """Base of all errors of lt.

    Args:
        message: what was expected, what was received, the remedy.
        code: the error's code, such as ``"LT101"``; shown in brackets at the end.

    Attributes:
        agreed: every rank raises it at the same place, by agreement, so that a launcher takes none for failed.
    """

    agreed: bool = False

    def __init__(self, message: str, *, code: str | None = None) -> None:
        message = visible(message)
        super().__init__(f"{message} [{code}]" if code else message)
        self.message, self.code = message, code

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args), self.__dict__  # with the notes, which name rank and place


def _rebuild(kind: type[LtError], args: tuple[object, ...]) -> LtError:
    # past __init__: subclasses may take other arguments, and it would append the code once more
    error = kind.__new__(kind)
    Exception.__init__(error, *args)
    return error


class UsageError(LtError, ValueError):
    """A mistake in the user's code, in contrast to failures of files and processes."""


class ConfigError(UsageError):
    """An argument that is wrong by itself or together with another one."""


class ConfigTypeError(ConfigError, TypeError):
    """An argument of the wrong type."""


class PluginError(ConfigError):
    """A name of a strategy, accelerator, logger... that no installed package provides, or several do."""


class HookError(ConfigError):
    """A hook of a module or callback that is missing, has a wrong signature or returned something wrong."""


class DataError(UsageError):
    """A loader, sampler or batch that cannot be used."""


class LogError(UsageError):
    """A call of ``self.log`` that cannot be recorded, or a monitor that was never logged."""


class CheckpointError(LtError, RuntimeError):
    """A checkpoint that cannot be written, read or trusted: path, reason, way out."""


class MissingCheckpointError(FileNotFoundError, CheckpointError):
    """A checkpoint that is not there; ``except FileNotFoundError`` catches it too."""

    __init__ = LtError.__init__
    __reduce__ = LtError.__reduce__


class RankError(LtError, RuntimeError):
    """Processes of one job that disagree, or one that died; the message names the rank."""


MisconfigurationException = ConfigError


class LtWarning(UserWarning):
    """Base of all warnings of lt; silence one by its code: ``lt.errors.silence(["LT448"])`` or a warnings filter."""


class LtDeprecationWarning(LtWarning, FutureWarning):
    """An old spelling that still works, and the new one."""


_VARIABLE = "LT_SILENCE"
_silenced: set[str] = {*filter(None, os.environ.get(_VARIABLE, "").split(","))}
_silenced_by_runs: Counter[str] = Counter()  # counted: two runs at a time may silence the same code


def silence(codes: Iterable[str]) -> None:
    """Turn off the warnings with these codes for the rest of the process, and in the processes that it starts."""
    _silenced.update(codes)
    os.environ[_VARIABLE] = ",".join(sorted(_silenced))


@contextmanager
def silenced(codes: Iterable[str]) -> Iterator[None]:
    """Turn off the warnings with these codes while a run lasts, in all threads of the process."""
    mine = list(codes)
    _silenced_by_runs.update(mine)
    try:
        yield
    finally:
        _silenced_by_runs.subtract(mine)


def warn(
    message: str,
    *,
    code: str,
    category: type[LtWarning] = LtWarning,
    stacklevel: int | None = None,
    about: Callable[..., Any] | None = None,
) -> None:
    """Warn with a code that users can silence.

    Args:
        message: the text.
        code: ``LT`` and three digits.
        category: the warning's class.
        stacklevel: whose line is shown, counted from the caller as in :func:`warnings.warn`; None: the nearest line
            that is neither lt's nor torch's.
        about: a method of the user's that the warning is about: the line where it is defined is shown instead.
    """
    if code in _silenced or _silenced_by_runs[code] > 0:
        return
    text = f"{visible(message)} [{code}]"
    function: Any = getattr(about, "__wrapped__", about)
    with suppress(ValueError):  # stderr is closed
        if hasattr(function, "__code__"):
            _warn_at(
                text, category, function.__code__.co_filename, function.__code__.co_firstlineno, function.__globals__
            )
        elif stacklevel is None and (frame := _frame_of_the_user()) is not None:
            _warn_at(text, category, frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
        else:
            warnings.warn(text, category, stacklevel=(stacklevel or 2) + 1)
    LossyStream(sys.stderr).flush()  # Python has passed over an error of it, and would meet it again at its exit


@contextmanager
def recording(what: str) -> Iterator[None]:
    """Warn when ``what``, an informative file, cannot be written, and continue without it."""
    try:
        yield
    except OSError as error:
        warn(f"{what} could not be written, and the run goes on without: {error}.", code="LT236")


def _warn_at(text: str, category: type[LtWarning], file: str, line: int, module: dict[str, Any]) -> None:
    registry = module.setdefault("__warningregistry__", {})  # Python's own, so that a line warns once here too
    warnings.warn_explicit(text, category, file, line, module.get("__name__"), registry)


def _frame_of_the_user() -> FrameType | None:
    """Return the nearest frame that is neither lt's nor torch's; None in a thread or process that has none."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        spec = frame.f_globals.get("__spec__")  # of `python -m lt_cli.main`, whose name is __main__
        root = str(getattr(spec, "name", None) or frame.f_globals.get("__name__")).partition(".")[0]
        if not (root.startswith("lt_") or root in _PASSED_OVER or frame.f_code.co_filename == "<string>"):
            break
        frame = frame.f_back
    return frame


_PASSED_OVER = frozenset(
    {"lt", "torch", "concurrent", "contextlib", "functools", "importlib", "multiprocessing", "runpy", "threading"}
)
"""Packages beside lt whose frames are skipped in warnings."""


def from_signal_handler(error: BaseException | None) -> BaseException | None:
    """Return a signal handler's error: ``error`` or its cause; None where the interrupted code failed.

    torch's handler of SIGCHLD raises wherever the process is when a DataLoader worker was killed; let such errors pass.
    Libraries that retry or wrap failures turn it into an error of their own.
    """
    codes = {getattr(handler, "__code__", None) for handler in map(signal.getsignal, signal.valid_signals())}
    chain, seen = [error], set[int]()  # errors may be each other's cause
    for found in chain:
        if found is not None and id(found) not in seen:
            if any(frame.f_code in codes for frame, _ in traceback.walk_tb(found.__traceback__)):
                return found
            seen.add(id(found))
            chain += found.__cause__, found.__context__
    return None


def nearest_name(name: str, choices: Iterable[str], *, slip: bool = False) -> str | None:
    """Return the choice that is most like ``name``; with ``slip`` only one that is a letter or two off."""
    return _nearest(str(name).lower(), tuple(choices), 0.87 if slip else 0.6)


@lru_cache(1024)  # the names of a class are looked at again in each run
def _nearest(name: str, choices: tuple[str, ...], cutoff: float) -> str | None:
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name, by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the choice nearest to ``name``, or an empty string."""
    near = nearest_name(name, choices)
    return "" if near is None else f" Did you mean {near!r}?"


@lru_cache(1024)  # hasattr asks for the same names again
def counterpart(owner: str, name: str, value: str = "...") -> str:
    """Return what stands here for a name of another trainer, such as ``" Write max_epochs=3."``, or an empty string.

    Args:
        owner: section of ``guesses.ini``: where the name was written.
        name: as the user wrote it.
        value: the argument's value, as the message shows it.
    """
    table = RawConfigParser(delimiters="=")
    table.read(Path(__file__).with_name("guesses.ini"), "utf-8")
    meant = table.get(owner, name, fallback="")
    meant = meant and table.get(owner, f"{name} {value}", fallback=table.get("off", value, fallback=meant))
    return meant and " " + meant.format(value)


def near_files(path: Path) -> str:
    """Return ``" Near it: 'a.ckpt', 'b.ckpt'."`` for files of similar names, or an empty string."""
    folder = path.parent
    if not folder.is_dir():
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        return f" Its folder is not there either; {str(folder)!r} is the nearest that is."
    names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name != path.name]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    near += sorted(n for n in names if n.endswith(".ckpt") and n not in near)[: 3 - len(near)]
    return f" Near it: {', '.join(map(repr, near))}." if near else ""
