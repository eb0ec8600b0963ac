"""Rules for the Trainer's arguments, each by itself, and the form in which a value counts.

A rule takes name and value and returns the problem; none knows another argument. A form takes a checked value.
"""

import os
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeGuard

from lt_core import plugins
from lt_core.callback import Callback
from lt_core.duration import UNITS, Duration, Unit, expected_of
from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean
from lt_core.precision import Precision
from lt_loops.arguments.precision_names import canonical_precision
from lt_loops.arguments.problems import Problem, Rule, problem, shown, type_name

_COMPILE_OPTIONS = ("fullgraph", "dynamic", "backend", "mode", "options", "disable")


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is a whole number (also numpy's), which True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a real number (also numpy's), which True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


# ---- the form of all rules -------------------------------------------------------------------------------------------


def remedy(name: str, value: Any, example: Any, wrap: str = "{}") -> str:
    """Return the way out of a wrong type, by the kind of mistake: quotes, a class for its object, another library's...

    Args:
        name: the argument.
        value: the given value.
        example: a value that fits; text in the code of a list where ``wrap`` says so.
        wrap: how an object is written that stands in a list.
    """
    if isinstance(value, str) and not isinstance(example, str):
        with suppress(ValueError, SyntaxError):
            return f"Write {name}={literal_eval(value.strip())!r}, without quotes."
    if isinstance(example, bool):
        return f"Write {name}=True or {name}=False."
    if isinstance(value, type):
        return f"Write {name}={wrap.format(f'{value.__name__}(...)')}: an object, not its class."
    package = type(value).__module__.partition(".")[0]
    if package in ("lightning", "pytorch_lightning", "lightning_fabric"):
        return f"It comes from {package}: import {type(value).__name__} from lt instead."
    if callable(value):
        return f"Call it: {name}={wrap.format('...()')}."
    return f"Write {name}={wrap.format(example if wrap != '{}' else repr(example))}, for instance."


def rule(
    expected: str,
    right: Callable[[Any], bool] | tuple[type, ...],
    fits: Callable[[Any], bool] = lambda value: True,
    *,
    example: Any,
    instead: str | Callable[[Any], str] = "Write {name}={example!r}.",
) -> Rule:
    """Return a rule.

    Args:
        expected: the expectation, for messages.
        right: whether a value has the type, or the types that it may have.
        fits: whether a value of the type can be taken.
        example: a value that can be taken.
        instead: the way out where it cannot.
    """

    def check(name: str, value: Any) -> Problem | None:
        if not (isinstance(value, right) if isinstance(right, tuple) else right(value)):
            return problem(name, value, expected, remedy(name, value, example), wrong_type=True)
        if fits(value):
            return None
        way_out = instead.format(name=name, example=example) if isinstance(instead, str) else instead(value)
        return problem(name, value, expected, way_out)

    return check


# ---- numbers ---------------------------------------------------------------------------------------------------------


def count(minimum: int, unit: str, *, unlimited: bool = False, instead: str = "", also: str = "") -> Rule:
    """Accept whole numbers from ``minimum`` on, and -1 where ``unlimited``.

    ``instead`` is the remedy for other numbers; ``also`` names values that another rule accepts.
    """
    return rule(
        f"a whole number of {unit}, {minimum} or more{', or -1 for no limit' * unlimited}{also}",
        is_whole,
        lambda value: value >= minimum or (unlimited and value == -1),
        example=5,
        instead=instead or f"Write {{name}}={-1 if unlimited else minimum}.",
    )


def sanity_check(name: str, value: Any) -> Problem | None:
    """Accept a count of batches, -1, or a word for a whole validation."""
    steps = count(0, "batches", unlimited=True, also=", or 'logged' for a whole validation that is logged")
    return None if value == "logged" else steps(name, value)


def _is_part(value: Any) -> bool:
    return value >= 0 and (is_whole(value) or value <= 1)


def part(stage: str) -> Rule:
    """Accept a fraction from 0.0 to 1.0 or a count of batches."""
    return rule(
        f"a fraction of the {stage} batches from 0.0 to 1.0, or a whole number of them, 0 or more",
        is_number,
        _is_part,
        example=0.5,
        instead="Write {name}=5 for five batches, {name}=0.5 for half of them, {name}=0 for none.",
    )


def _or_duration(numbers: Rule) -> Rule:
    """Accept a number that ``numbers`` takes, or a duration."""

    def check(name: str, value: Any) -> Problem | None:
        in_words = isinstance(value, str | timedelta | Duration | Mapping)
        is_duration = in_words and not str(value).strip().lstrip("+-").isdecimal()
        return (duration(*UNITS) if is_duration else numbers)(name, value)

    return check


val_check_interval = _or_duration(
    rule(
        f"a fraction of the epoch above 0.0 up to 1.0, a whole number of batches from 1 on, or {expected_of(UNITS)}",
        is_number,
        lambda value: value and _is_part(value),
        example=1.0,
        instead="Write {name}=100 for so many batches; to validate never, write limit_val_batches=0.",
    ),
)
"""Accepts a fraction of the epoch, a count of batches or a duration."""

log_every_n_steps = _or_duration(
    count(
        0,
        "optimizer steps",
        instead="Write {name}=0 to log nothing per step.",
        also=f", or {expected_of(UNITS)}",
    ),
)
"""Accepts a count of optimizer steps or a duration."""


def duration(*units: Unit) -> Rule:
    """Accept an amount of training in one of ``units``."""

    def check(name: str, value: Any) -> Problem | None:
        try:
            Duration.of(value, units, f"{name}={{}}")
        except ConfigError as error:
            return Problem(error.message, isinstance(error, ConfigTypeError))
        return None

    return check


def length(name: str, value: Any) -> Problem | None:
    """Accept how long a fit is: a time, or whole steps, epochs, samples or tokens."""
    wrong = duration("steps", "epochs", "samples", "tokens", "seconds")(name, value)
    if wrong is None and (found := Duration.of_any(value)).unit == "epochs" and found.amount % 1:
        return problem(name, value, "a whole number of epochs", f"Write {name}='1 epochs', for instance.")
    return wrong


def windows(name: str, value: Any) -> Problem | None:
    """Accept a count of batches for each optimizer step, or one for each epoch from which it holds."""
    by_epoch = value if isinstance(value, Mapping) else {0: value}
    whole = all(map(is_whole, chain(*by_epoch.items())))
    if value == "auto" or (whole and by_epoch and min(by_epoch) >= 0 and min(by_epoch.values()) >= 1):
        return None
    expected = "a whole number of batches, 1 or more; a schedule {epoch: batches} (epochs from 0 on, batches from 1 on)"
    example = f"Write {name}=1 for a step after each batch, or {name}={{0: 8, 4: 4}}, for instance."
    return problem(name, value, f"{expected} or 'auto'", example, wrong_type=not whole)


clip = rule(
    "a number, 0 or more (the largest norm or value of the gradients)",
    is_number,
    lambda value: value >= 0,
    example=1.0,
    instead="Write {name}=None to clip nothing.",
)
"""Accepts a number that is not negative."""

devices = rule(
    "a count (2), -1 for all, indices ([0, 2] or '0,2'), or 'auto'",
    lambda value: isinstance(value, str) or all(map(is_whole, as_list(value))),
    lambda value: value == -1 or value >= 1 if is_whole(value) else bool(str(value).strip(" []()")),
    example=1,
    instead="Write {name}='auto'; to use no accelerator write accelerator='cpu', devices=1.",
)
"""Accepts a count, indices or text."""

# ---- choices ---------------------------------------------------------------------------------------------------------

flag = rule("True or False", (bool,), example=True)
"""Accepts True and False."""


def choice(*choices: str | bool) -> Rule:
    """Accept the given words, and True or False where they are among them."""
    words = [choice for choice in choices if isinstance(choice, str)]
    return rule(
        " or ".join(map(repr, choices)),
        lambda value: isinstance(value, str) or (isinstance(value, bool) and value in choices),
        lambda value: isinstance(value, bool) or value.lower() in words,
        example=choices[0],
        instead=lambda value: did_you_mean(value, words).strip() or f"Take {choices[0]!r}, for instance.",
    )


def _flag_or_count(unit: str) -> Rule:
    return rule(
        f"True, False, or a whole number of {unit}",
        (bool, Integral),
        lambda value: value >= 0,
        example=True,
        instead="Write {name}=True for one, {name}=5 for five.",
    )


fast_dev_run = _flag_or_count("batches")
"""Accepts True, False or a count of batches."""

cuda_graphs = _flag_or_count("steps that are one graph")
"""Accepts True, False or a count of steps."""

path = rule(
    "the path of a folder",
    (str, os.PathLike),
    lambda value: not Path(value).is_file(),
    example="runs",
    instead="This is a file: name its folder, or another one.",
)
"""Accepts the path of a folder."""


def precision(name: str, value: Any) -> Problem | None:
    """Accept a number format's name in any spelling, or an object; or a dict of such for training and evaluation."""
    if isinstance(value, Precision):
        return None
    if isinstance(value, Mapping):
        if not value or value.keys() - {"train", "eval"}:
            expected = "a number format for 'train', for 'eval', or for both"
            return problem(name, value, expected, f"Write {name}={{'train': '32-true', 'eval': 'bf16-mixed'}}.")
        wrong = (precision(f"{name}[{key!r}]", own) for key, own in value.items())
        return next(filter(None, wrong), None)
    try:
        canonical_precision(value)
    except ConfigError as error:
        # the error about a text has one
        way_out = "" if isinstance(value, str) else " " + remedy(name, value, "32-true")
        return Problem(f"{name}={error.message}{way_out}", isinstance(error, ConfigTypeError))
    return None


def _unknown(items: Iterable[Any], known: Iterable[str], text: str) -> str:
    """Return the way out for the first of several items that is not known."""
    names = sorted(known)
    wrong = next(item for item in items if item not in names)
    return f"{wrong!r} {text}.{did_you_mean(str(wrong), names)}"


compile_options = rule(
    f"True, False, or a dict of torch.compile's arguments ({', '.join(_COMPILE_OPTIONS)})",
    (bool, Mapping),
    lambda value: isinstance(value, bool) or value.keys() <= {*_COMPILE_OPTIONS},
    example={"mode": "reduce-overhead"},
    instead=lambda value: _unknown(value, _COMPILE_OPTIONS, "is none"),
)
"""Accepts True, False or arguments of ``torch.compile``."""


def _known_codes() -> set[str]:
    return set().union(*(plugins.load("codes", package) for package in plugins.names("codes")))


codes = rule(
    "a list of codes of warnings, as they stand in brackets at a warning's end",
    lambda value: isinstance(value, Iterable) and not isinstance(value, str),
    lambda value: {*value} <= _known_codes(),
    example=["LT448"],
    instead=lambda value: _unknown(value, _known_codes(), "is no warning of an installed package; errors stay"),
)
"""Accepts codes of warnings that installed packages give."""

# ---- objects ---------------------------------------------------------------------------------------------------------


def an_object(kind: type, example: str) -> Rule:
    """Accept a name or an instance of ``kind``."""
    return rule(
        f"a name ({example!r}) or an object of a subclass of lt_core.{kind.__name__}",
        (kind, str),
        lambda value: not isinstance(value, str) or bool(value.strip()),
        example=example,
        instead="Leave {name} out for its default.",
    )


def objects(kinds: tuple[type, ...], example: str, *, flags: bool = False) -> Rule:
    """Accept one or a list of instances of ``kinds``, or of names of such, and True or False where ``flags``."""
    what = " or ".join(f"lt_core.{kind.__name__}" for kind in kinds)
    expected = f"{'True, False, ' * flags}a name, an object of a subclass of {what}, or a list of such"

    def check(name: str, value: Any) -> Problem | None:
        if flags and isinstance(value, bool):
            return None
        for item in (items := as_list(value)):
            if not (isinstance(item, kinds) or (isinstance(item, str) and item.strip())):
                way_out = remedy(name, item, example, "[{}]") if item is not None else "Take None out of the list."
                text = f"{name}={shown(value)}: expected {expected}; received {type_name(item)}. {way_out}"
                return Problem(text, wrong_type=True)
        return repeated(name, items)

    return check


def repeated(name: str, items: list[Any]) -> Problem | None:
    """Return the problem of an object that is in the list twice, or of two that would save under one key."""
    keys: set[str] = set()
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
        keys.add(item.state_key)
    return None


# ---- forms -----------------------------------------------------------------------------------------------------------


def as_plain(value: Any) -> Any:
    """Return whole numbers of other libraries as Python's, all else as it is."""
    return int(value) if is_whole(value) else value


def as_list(value: Any) -> list[Any]:
    """Return one or several values as a list; any sequence but text is several, also omegaconf's ListConfig."""
    several = isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes))
    return list(value) if several else [value]


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


def as_precision(value: Any) -> Any:
    """Return a number format by its present name; one for each part where it is a dict."""
    if isinstance(value, Mapping):
        return {part: as_precision(own) for part, own in value.items()}
    return value if isinstance(value, Precision) else canonical_precision(value)


def as_length(value: Any) -> timedelta | Duration:
    """Return a time as such, else the duration."""
    found = Duration.of_any(value)
    return timedelta(seconds=found.amount) if found.unit == "seconds" else found


def as_interval(value: Any) -> int | float | timedelta | Duration:
    """Return a number as it is, batches and parts of an epoch as numbers, time as such, else the duration."""
    if is_number(value):
        return int(value) if is_whole(value) else float(value)
    found = Duration.of_any(value)
    if not found.amount:
        return 1
    if found.unit in ("seconds", "batches"):
        return found.in_python()
    return found.amount if found.unit == "epochs" and found.amount <= 1 else found


def as_row_interval(value: Any) -> int | Duration:
    """Return optimizer steps as their number, else the duration."""
    if is_whole(value):
        return int(value)
    found = Duration.of_any(value)
    if not found.amount:  # the number 0 alone is never
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
