"""Arguments that lt does not know: installed packages are asked what they mean (:mod:`lt_core.dialect`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lt_core.dialect import dialects
from lt_core.errors import ConfigTypeError, did_you_mean
from lt_loops import former_names
from lt_loops.arguments.problems import Problem, problem_of, raise_problems, shown


def translated(where: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the arguments of a call as installed dialects understand them, and which contradict each other."""
    meant: dict[str, Any] = dict(given)
    errors: list[Any] = []
    for dialect in dialects():
        meant = dialect.arguments(where, meant, errors)
    return meant, [problem_of(error) for error in errors]


def in_todays_names(method: str, known: dict[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of one of the Trainer's methods, of which it does not know some.

    Raises:
        ConfigTypeError: for those that no installed package understands either.
    """
    meant, problems = translated(method, {**known, **unknown})
    for name in meant.keys() - known.keys():
        hint = todays_name(former_names.RUN_ARGUMENTS.get(method, {}), name) or did_you_mean(name, known).strip()
        hint = hint or f"Expected: {', '.join(known)}."
        text = f"{name}={shown(meant[name])} is no argument of {method}(). {hint}"
        problems.append(Problem(text, wrong_type=True, error=ConfigTypeError(text, code="LT141")))
    raise_problems(problems, f"{method}()", code="LT140")
    return meant


def todays_name(names: Mapping[str, str], name: str) -> str:
    """Return what to write in place of a name of 1.x, and who understands it; "" for others."""
    return f"In 1.x it was one: write {names[name]}. {former_names.understood_by()}" if name in names else ""
