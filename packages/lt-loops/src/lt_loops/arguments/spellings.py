"""Arguments and attributes that lt does not know: installed packages are asked for them (:mod:`lt_core.dialect`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from lt_core.dialect import NOT_MINE, attribute_of, dialects
from lt_core.errors import ConfigTypeError, counterpart, did_you_mean
from lt_core.trainer import TrainerAPI
from lt_loops import former_names
from lt_loops.arguments.problems import Problem, problem_of, raise_problems, shown

if TYPE_CHECKING:
    from abc import ABCMeta as ProtocolMeta
else:
    ProtocolMeta = type(TrainerAPI)


def translated(where: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the arguments of a call as installed dialects understand them, and which contradict each other."""
    meant: dict[str, Any] = dict(given)
    errors: list[Any] = []
    for dialect in dialects():
        meant = dialect.arguments(where, meant, errors)
    return meant, [problem_of(error) for error in errors]


def in_todays_names(method: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of one of the Trainer's methods by today's names; ``call`` has its parameters by name.

    Raises:
        ConfigTypeError: for arguments that no installed package understands either.
    """
    known = {name: value for name, value in call.items() if name not in ("self", "unknown")}
    meant, problems = translated(method, {**known, **call["unknown"]})
    problems += [unknown_argument(name, meant[name], f"{method}()", known) for name in meant.keys() - known.keys()]
    raise_problems(problems, f"{method}()", code="LT140")
    return meant


def unknown_argument(name: str, value: Any, where: str, known: Collection[str]) -> Problem:
    """Return the problem of an argument that ``where`` does not have: today's way for one of 1.x or another trainer."""
    if where == "Trainer()" and (today := former_names.ARGUMENTS.get(name)):
        hint = f" In 1.x it was one: write {today}. {former_names.understood_by()}"
    else:
        hint = counterpart(where, name, shown(value)) or did_you_mean(name, known) or f" Expected: {', '.join(known)}."
    text = f"{name}={shown(value)} is no argument of {where}.{hint}"
    return Problem(text, wrong_type=True, error=ConfigTypeError(text, code="LT141"))


class AsksDialects(ProtocolMeta):
    """The class of the Trainer's class: class methods that are not there are asked of the installed dialects.

    The Trainer is a Protocol's by name, and has its class: an ABCMeta, so that a subclass of the Trainer may have an
    abstract class beside it.
    """

    if not TYPE_CHECKING:  # type checkers still report unknown attributes

        def __getattr__(cls, name: str) -> Any:  # noqa: N805  (a class of classes)
            return missing(cls, name)


def missing(owner: Any, name: str) -> Any:
    """Return the attribute of a Trainer, or of its class, that a dialect has.

    Raises:
        AttributeError: where none has it; with the way of today for one of Lightning 1.x.
    """
    found = attribute_of(owner, name)
    if found is not NOT_MINE:
        return found
    kind = (owner if isinstance(owner, type) else type(owner)).__name__
    text = f"{kind!r} object has no attribute {name!r}.{counterpart('Trainer', name)}"
    raise AttributeError(text, name=name, obj=owner)
