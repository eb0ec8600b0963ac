"""What an argument of the Trainer may be by itself, and the form in which it then counts.

A rule takes name and value and says what is wrong; none knows another argument. A form takes a value that passed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeGuard

from lt_core import plugins
from lt_core.callback import Callback
from lt_core.duration import UNITS, Duration, Unit, expected_of
from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean
from lt_core.precision import Precision
from lt_loops.arguments.precision_names import canonical_precision
from lt_loops.arguments.problems import Problem, Rule, shown, type_name, wrong_type, wrong_value

_FOREIGN = ("lightning", "pytorch_lightning", "lightning_fabric")

_COMPILE_OPTIONS = ("fullgraph", "dynamic", "backend", "mode", "options", "disable")


def is_whole(value: object) -> bool:
    """Return whether ``value`` is a whole number (also numpy's), which True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a real number (also numpy's), which True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def count(minimum: int, unit: str, *, unlimited: bool = False, instead: str = "", also: str = "") -> Rule:
    """Accept whole numbers from ``minimum`` on, and -1 where ``unlimited``.

    ``instead`` is the way out for others; what is expected ``also`` another rule takes.
    """
    expected = f"a whole number of {unit}, {minimum} or more" + (", or -1 for no limit" if unlimited else "") + also

    def rule(name: str, value: Any) -> Problem | None:
        if not is_whole(value):
            endless = unlimited and is_number(value) and math.isinf(value)
            return wrong_type(name, value, expected, f"Write {name}=-1." if endless else _as_number(name, value))
        if value >= minimum or (unlimited and value == -1):
            return None
        return wrong_value(name, value, expected, instead or f"Write {name}={-1 if unlimited else minimum}.")

    return rule


def _as_number(name: str, value: Any) -> str:
    """Return the remedy for what is nearly a whole number: text, ``5.0``, True."""
    if isinstance(value, bool):
        return f"Write {name}=1 for one." if value else f"Leave {name} out for its default."
    if is_number(value):
        finite = math.isfinite(value)
        return f"Write {name}={max(math.floor(value), 1)}." if finite else f"Leave {name} out for its default."
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
        return f"Write {name}={int(value)}, without quotes."
    return f"Write {name}=5, for instance."


def sanity_check(name: str, value: Any) -> Problem | None:
    """Accept a count of batches, -1, or a word for a whole validation."""
    steps = count(0, "batches", unlimited=True, also=", or 'logged' for a whole validation that is logged")
    return None if value == "logged" else steps(name, value)


def part(stage: str) -> Rule:
    """Accept a fraction from 0.0 to 1.0 or a count of batches."""
    expected = f"a fraction of the {stage} batches from 0.0 to 1.0, or a whole number of them, 0 or more"

    def rule(name: str, value: Any) -> Problem | None:
        if not is_number(value):
            return wrong_type(name, value, expected, _as_part(name, value))
        if value < 0 or math.isnan(value):
            return wrong_value(name, value, expected, f"Write {name}=0 for none, {name}=1.0 for all.")
        if not is_whole(value) and value > 1:
            count = math.floor(value) if math.isfinite(value) else 1.0
            return wrong_value(name, value, expected, f"Write {name}={count}.")
        return None

    return rule


def _as_part(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"Write {name}={'1.0 for all' if value else '0 for none'}."
    try:
        return f"Write {name}={float(value) if '.' in value else int(value)}, without quotes."
    except (TypeError, ValueError):
        return f"Write {name}=0.5 for half of them, {name}=10 for ten."


def val_check_interval(name: str, value: Any) -> Problem | None:
    """Accept a fraction of the epoch, a count of batches or a duration."""
    amount = expected_of(UNITS)
    expected = f"a fraction of the epoch above 0.0 up to 1.0, a whole number of batches from 1 on, or {amount}"
    if isinstance(value, bool):
        return wrong_type(name, value, expected, f"Write {name}=1.0; limit_val_batches=0 turns validation off.")
    if not is_number(value):
        return _duration(name, value, UNITS, expected)
    if value <= 0 or math.isnan(value):
        return wrong_value(name, value, expected, "To validate never, write limit_val_batches=0.")
    if not is_whole(value) and value > 1:
        return wrong_value(name, value, expected, f"Write {name}={math.floor(value) if math.isfinite(value) else 1.0}.")
    return None


def log_every_n_steps(name: str, value: Any) -> Problem | None:
    """Accept a count of optimizer steps or a duration."""
    amount = f", or {expected_of(UNITS)}"
    if isinstance(value, str | timedelta | Duration | Mapping) and not str(value).strip().lstrip("+-").isdecimal():
        return _duration(name, value, UNITS, f"a whole number of optimizer steps, 0 or more{amount}")
    return count(0, "optimizer steps", instead=f"Write {name}=0 to log nothing per step.", also=amount)(name, value)


def _duration(name: str, value: Any, units: Sequence[Unit], expected: str = "") -> Problem | None:
    """Accept a duration in one of ``units``; ``expected`` says what else may be written."""
    try:
        Duration.of(value, units, f"{name}={{}}")
    except ConfigError as error:
        text = error.message
        text = text.replace(expected_of(units), expected) if expected else text
        return Problem(text, wrong_type=isinstance(error, ConfigTypeError))
    return None


def duration(*units: Unit) -> Rule:
    """Accept an amount of training in one of ``units``: whole, but for a time."""

    def rule(name: str, value: Any) -> Problem | None:
        problem = _duration(name, value, units)
        if problem is not None:
            return problem
        found = Duration.of(value, units)
        if found.unit == "epochs" and found.amount % 1:
            return wrong_value(
                name, value, "a whole number of epochs", f"Write {name}='{math.ceil(found.amount)} epochs'."
            )
        return None

    return rule


def windows(name: str, value: Any) -> Problem | None:
    """Accept a count of batches for each optimizer step, or one for each epoch from which it holds."""
    single = count(1, "batches", instead=f"Write {name}=1 for a step after each batch.")
    if value == "auto":
        return None
    if isinstance(value, str) and value.strip().isalpha():
        return wrong_type(name, value, "a whole number of batches, a schedule, or 'auto'", f"Write {name}='auto'.")
    if not isinstance(value, Mapping):
        return single(name, value)
    expected = "a schedule {epoch: batches}, epochs from 0 on, batches from 1 on"
    if not value:
        return wrong_value(name, value, expected, f"Write {name}={{0: 8, 4: 4}}, for instance, or {name}=1.")
    for epoch, batches in value.items():
        whole = is_whole(epoch) and is_whole(batches)
        if not whole or epoch < 0 or batches < 1:
            make = wrong_value if whole else wrong_type
            return make(name, value, expected, f"The entry {epoch!r}: {batches!r} does not fit.")
    return None


def clip(name: str, value: Any) -> Problem | None:
    """Accept a number that is not negative."""
    expected = "a number, 0 or more (the largest norm or value of the gradients)"
    if not is_number(value):
        text = isinstance(value, str)
        return wrong_type(name, value, expected, _as_part(name, value) if text else f"Write {name}=1.0.")
    if value < 0 or math.isnan(value):
        return wrong_value(name, value, expected, f"Write {name}=None to clip nothing.")
    return None


def devices(name: str, value: Any) -> Problem | None:
    """Accept a count, indices or text."""
    expected = "a count (2), -1 for all, indices ([0, 2] or '0,2'), or 'auto'"
    if isinstance(value, str):
        return None if value.strip() else wrong_value(name, value, expected, f"Write {name}='auto'.")
    if is_whole(value):
        remedy = "To use no accelerator write accelerator='cpu', devices=1."
        return None if value == -1 or value >= 1 else wrong_value(name, value, expected, remedy)
    if not isinstance(value, Sequence):
        return wrong_type(name, value, expected, _as_number(name, value))
    if not value:
        return wrong_value(name, value, expected, f"Write {name}='auto'.")
    if all(map(is_whole, value)):
        return None
    return wrong_type(name, value, expected, f"Write {name}=[0, 1], for instance.")


# ---- choices ---------------------------------------------------------------------------------------------------------


def flag(name: str, value: Any) -> Problem | None:
    """Accept True and False."""
    if isinstance(value, bool):
        return None
    guess = str(value).strip().lower() not in ("0", "false", "no", "off", "none", "")
    return wrong_type(name, value, "True or False", f"Write {name}={guess}.")


def choice(*choices: str | bool) -> Rule:
    """Accept the given words, and True or False where they are among them."""
    expected = " or ".join(map(repr, choices))
    words = [choice for choice in choices if isinstance(choice, str)]
    instead = f"Take {choices[0]!r}, for instance."

    def rule(name: str, value: Any) -> Problem | None:
        if isinstance(value, str):
            known = value.lower() in words
            return None if known else wrong_value(name, value, expected, did_you_mean(value, words).strip() or instead)
        if isinstance(value, bool) and value in choices:
            return None
        return wrong_type(name, value, expected, f"Write {name}={bool(value) if True in choices else words[0]!r}.")

    return rule


def fast_dev_run(name: str, value: Any) -> Problem | None:
    """Accept True, False or a count of batches."""
    if isinstance(value, bool):
        return None
    expected = "True, False, or a whole number of batches"
    if not is_whole(value):
        return wrong_type(name, value, expected, f"Write {name}=True for one batch, {name}=5 for five.")
    return wrong_value(name, value, expected, f"Write {name}=True for one batch.") if value < 0 else None


def of_type(kinds: tuple[type, ...], expected: str, remedy: str) -> Rule:
    """Accept instances of ``kinds``."""
    return lambda name, value: None if isinstance(value, kinds) else wrong_type(name, value, expected, remedy)


def path(name: str, value: Any) -> Problem | None:
    """Accept the path of a folder."""
    expected = "the path of a folder"
    if not isinstance(value, str | os.PathLike):
        return wrong_type(name, value, expected, f"Write {name}='runs', for instance.")
    if Path(value).is_file():
        return wrong_value(name, os.fspath(value), expected, "This is a file: name its folder, or another one.")
    return None


def precision(name: str, value: Any) -> Problem | None:
    """Accept a number format's name in any spelling, or an object."""
    if isinstance(value, Precision):
        return None
    if isinstance(value, Mapping):
        if not value or value.keys() - {"train", "eval"}:
            expected = "a number format for 'train', for 'eval', or for both"
            return wrong_value(name, value, expected, f"Write {name}={{'train': '32-true', 'eval': 'bf16-mixed'}}.")
        wrong = (precision(f"{name}[{key!r}]", part) for key, part in value.items())
        return next((problem for problem in wrong if problem is not None), None)
    try:
        canonical_precision(value)
    except ConfigError as error:
        written = f"{value.__name__}()" if isinstance(value, type) else "'16-mixed'" if value == 16 else "'32-true'"
        return Problem(f"{name}={error.message} Write {name}={written}.", wrong_type=isinstance(error, ConfigTypeError))
    return None


def compile_options(name: str, value: Any) -> Problem | None:
    """Accept True, False or arguments of ``torch.compile``."""
    expected = "True, False, or a dict of torch.compile's arguments"
    if isinstance(value, bool):
        return None
    if not isinstance(value, Mapping):
        remedy = f"Write {name}={{'mode': {value!r}}}." if isinstance(value, str) else f"Write {name}=True."
        return wrong_type(name, value, expected, remedy)
    unknown = [str(key) for key in value if key not in _COMPILE_OPTIONS]
    if not unknown:
        return None
    hint = did_you_mean(unknown[0], _COMPILE_OPTIONS)
    return wrong_value(name, value, f"{expected} ({', '.join(_COMPILE_OPTIONS)})", f"{unknown[0]!r} is none.{hint}")


def codes(name: str, value: Any) -> Problem | None:
    """Accept codes of warnings that installed packages give."""
    expected = "a list of codes of warnings, as they stand in brackets at a warning's end"
    if isinstance(value, str) or not isinstance(value, Iterable):
        return wrong_type(name, value, expected, f"Write {name}=[{value!r}]." if isinstance(value, str) else "")
    known = set().union(*(plugins.load("codes", package) for package in plugins.names("codes")))
    wrong = [code for code in value if code not in known]
    if not wrong:
        return None
    hint = did_you_mean(str(wrong[0]), sorted(known))
    return wrong_value(name, value, expected, f"No installed package warns with {wrong[0]!r}; errors stay.{hint}")


# ---- objects ---------------------------------------------------------------------------------------------------------


def an_object(kind: type, example: str) -> Rule:
    """Accept a name or an instance of ``kind``."""
    expected = f"a name ({example!r}) or an object of a subclass of lt_core.{kind.__name__}"

    def rule(name: str, value: Any) -> Problem | None:
        if isinstance(value, kind):
            return None
        if isinstance(value, str):
            return None if value.strip() else wrong_value(name, value, expected, f"Leave {name} out for its default.")
        return wrong_type(name, value, expected, _as_object(f"{name}={{}}", value, f"{name}={example!r}"))

    return rule


def _as_object(form: str, value: Any, example: str) -> str:
    """Return the remedy for what is no object of ours: its class, or an object of the incumbent's."""
    if isinstance(value, type):
        return f"Write {form.format(f'{value.__name__}(...)')}: an object, not its class."
    package = type(value).__module__.partition(".")[0]
    if package in _FOREIGN:
        return f"It comes from {package}: import {type(value).__name__} from lt instead."
    if callable(value):
        return f"Call it: {form.format('...()')}."
    return f"Write {example}, for instance."


def objects(kinds: tuple[type, ...], example: str, *, flags: bool = False) -> Rule:
    """Accept one or a list of instances of ``kinds``, or of names of such, and True or False where ``flags``."""
    what = " or ".join(f"lt_core.{kind.__name__}" for kind in kinds)
    expected = f"{'True, False, ' if flags else ''}a name, an object of a subclass of {what}, or a list of such"

    def rule(name: str, value: Any) -> Problem | None:
        if flags and isinstance(value, bool):
            return None
        items = value if _are_several(value) else [value]
        for item in items:
            if isinstance(item, kinds) or (isinstance(item, str) and item.strip()):
                continue
            remedy = _as_object(f"{name}=[{{}}]", item, f"{name}=[{example}]")
            if item is None:
                remedy = "Take None out of the list."
            return Problem(
                f"{name}={shown(value)}: expected {expected}; received {type_name(item)}. {remedy}", wrong_type=True
            )
        return repeated(name, list(items))

    return rule


def _are_several(value: Any) -> bool:
    """Return whether a value holds others: any sequence but text, another library's too (omegaconf's ListConfig)."""
    return isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes))


def repeated(name: str, items: list[Any]) -> Problem | None:
    """Return the problem of an object that is in the list twice, or of two that would save under one key."""
    keys: dict[str, Any] = {}
    for i, item in enumerate(items):
        kind = type(item).__name__
        if any(item is other for other in items[:i]) and not isinstance(item, str):
            return Problem(
                f"{name} holds the same {kind} twice: expected each object once. Take one out, or make another."
            )
        if not isinstance(item, Callback) or type(item).state_dict is Callback.state_dict:
            continue
        if item.state_key in keys:
            return Problem(
                f"{name} holds two {kind} whose state has the same key {item.state_key!r} in a checkpoint: expected "
                "different ones. Give them different settings, override state_key, or take one out."
            )
        keys[item.state_key] = item
    return None


# ---- forms -----------------------------------------------------------------------------------------------------------


def as_plain(value: Any) -> Any:
    """Return whole numbers of other libraries as Python's, all else as it is."""
    return int(value) if is_whole(value) else value


def as_list(value: Any) -> list[Any]:
    """Return one or several values as a list."""
    return list(value) if _are_several(value) else [value]


def as_loggers(value: Any) -> bool | list[Any]:
    """Return a flag as it is, one or several loggers as a list."""
    return value if isinstance(value, bool) else as_list(value)


def as_devices(value: Any) -> int | str | list[int]:
    """Return a count or text as it is, indices as a list."""
    return as_plain(value) if isinstance(value, str) or is_whole(value) else [int(index) for index in value]


def new_precision(value: Any) -> str:
    """Return how a number format is written today, where it is written as up to 1.x."""
    old = isinstance(value, int | str) and str(value) in ("16", "32", "64", "bf16")
    return f"write precision={canonical_precision(value)!r}." if old else ""


def as_precision(value: Any) -> str | Precision | dict[str, str | Precision]:
    """Return a number format by its present name; one for each part where it is a dict."""
    if isinstance(value, Mapping):
        return {part: as_precision(own) for part, own in value.items()}  # type: ignore[misc]
    return value if isinstance(value, Precision) else canonical_precision(value)


def as_length(value: Any) -> timedelta | Duration:
    """Return a time as such, else the duration."""
    found = Duration.of_any(value)
    return timedelta(seconds=found.amount) if found.unit == "seconds" else found


def as_interval(value: Any) -> int | float | timedelta | Duration:
    """Return a number as it is, batches and parts of an epoch as numbers, time as such, else the duration."""
    if is_number(value):
        return int(value) if is_whole(value) else float(value)
    found = Duration.of(value, UNITS)
    if not found.amount:
        return 1
    if found.unit in ("seconds", "batches"):
        return found.in_python()
    return found.amount if found.unit == "epochs" and found.amount <= 1 else found


def as_row_interval(value: Any) -> int | Duration:
    """Return optimizer steps as their number, else the duration."""
    found = Duration(int(value), "steps") if is_whole(value) else Duration.of_any(value)
    if not found.amount and not is_whole(value):  # 0 alone is never
        return 1
    return int(found.amount) if found.unit == "steps" else found


def as_windows(value: Any) -> int | Literal["auto"] | dict[int, int]:
    """Return a schedule in the order of its epochs, from epoch 0 on."""
    if not isinstance(value, Mapping):
        return "auto" if value == "auto" else int(value)
    return {0: 1, **{int(epoch): int(batches) for epoch, batches in sorted(value.items())}}


def as_compile_options(value: Any) -> dict[str, Any] | None:
    """Return the arguments for ``torch.compile``, None for False."""
    return ({} if value else None) if isinstance(value, bool) else dict(value)


def as_word(value: Any) -> Any:
    """Return text in lower case."""
    return value.lower() if isinstance(value, str) else value


def as_folder(value: Any) -> str:
    """Return a local path as an absolute one, an address (``s3://...``) as it is."""
    path: str = os.fspath(value)
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  (keeps links)
