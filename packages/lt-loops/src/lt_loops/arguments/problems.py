"""Problems with the arguments of one call, collected and raised together."""

import reprlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lt_core.errors import ConfigError, ConfigTypeError


class Problem(NamedTuple):
    """One problem: its text names the argument, the value, the expectation and the way out.

    Attributes:
        text: see above.
        wrong_type: whether the argument is of a wrong type.
        error: the error to raise where this is all that is wrong; None for one made of the text.
    """

    text: str
    wrong_type: bool = False
    error: ConfigError | None = None


Rule = Callable[[str, Any], Problem | None]
"""Returns the problem of one argument, by name and value; None for a good one."""


class _Short(reprlib.Repr):
    """Shows values in one short line: classes by name, objects without a short ``repr`` by their class."""

    def repr_instance(self, x: Any, level: int) -> str:
        text = x.__name__ if isinstance(x, type) else repr(x)
        return f"{type(x).__name__}(...)" if len(text) > self.maxother or "\n" in text or " at 0x" in text else text


_short = _Short()
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """Return the value as an error shows it, in one short line."""
    return _short.repr(value)


def type_name(value: object) -> str:
    """Return the value's type with its article: ``"a str"``, ``"an int"``, ``"None"``, ``"the class Adam"``."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def problem(name: str, value: object, expected: str, remedy: str, *, wrong_type: bool = False) -> Problem:
    """Return the problem of an argument that is not ``expected``: in its value, or in its type."""
    received = f"; received {type_name(value)}" if wrong_type else ""
    return Problem(f"{name}={shown(value)}: expected {expected}{received}. {remedy}", wrong_type)


def problem_of(error: ConfigError) -> Problem:
    """Return the problem that an error describes; it is raised itself where nothing else is wrong."""
    return Problem(str(error), isinstance(error, ConfigTypeError), error)


def raise_problems(problems: Sequence[Problem], call: str, code: str) -> None:
    """Raise one error that lists all ``problems`` of ``call``; without any, do nothing.

    Raises:
        ConfigTypeError: when all problems are wrong types.
        ConfigError: otherwise.
    """
    if not problems:
        return
    text, _, error = problems[0]
    if len(problems) > 1:
        lines = "".join(f"\n  {problem.text}" for problem in problems)
        text, error = f"{len(problems)} problems with the arguments of {call}:{lines}\n", None
    kind = ConfigTypeError if all(problem.wrong_type for problem in problems) else ConfigError
    raise error or kind(text, code=code)
