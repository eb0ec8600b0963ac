"""Overridden members of interfaces, and plug-ins for an older interface, which are called without newer arguments.

A class is adapted while it is made, before there is an object of it: members are called from loops, callbacks and the
user's own code, so a look at the signature where one of these calls would leave out the others.
One that has its default value is dropped in silence, any other with a warning, once; and one without which the numbers
would be wrong is an error.
"""

import functools
import inspect
import sys
from types import FunctionType
from typing import Any

from lt_core.errors import ConfigError, warn

__all__ = ["Interface", "is_overridden", "untaken"]

_CHANGES_NUMBERS = frozenset({"algorithm", "closure", "inputs", "op", "src"})
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Interface:
    """Base of the interfaces. Plug-ins whose members take fewer arguments than today's are called without the rest.

    Members that take less are wrapped; all others stay bare. Hooks of callbacks and modules are adapted by the loops.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Adapt the class to each interface that it is of."""
        super().__init_subclass__(**kwargs)
        for interface in cls.__mro__[1:]:
            if Interface in interface.__bases__:
                for name in untaken(cls, interface):
                    setattr(cls, name, _dropping(cls, name, vars(cls)[name], getattr(interface, name)))


def is_overridden(owner: object, name: str, base: type) -> bool:
    """Return whether ``owner`` has its own ``name``, by its class or on the instance (mocks, compiled methods).

    An attribute in its place (``test_step = None``) takes a parent's away. A class that does not have ``base`` among
    its parents is taken at its word: whatever it defines counts; so is one with a ``__getattribute__`` of its own.
    """
    if type(owner).__getattribute__ not in (object.__getattribute__, type.__getattribute__):
        answer = getattr(owner, name, None)
        return callable(answer) and getattr(answer, "__func__", answer) is not getattr(base, name, None)
    own = getattr(owner, "__dict__", {})
    if name in own:
        return callable(own[name])
    mine = getattr(type(owner), name, None)
    return mine is not None and mine is not getattr(base, name, None)


def untaken(cls: type, interface: type) -> dict[str, list[str]]:
    """Return, for each member that ``cls`` itself overrides, the arguments of the ``interface`` that it lacks."""
    found = {}
    for name, own in vars(cls).items():
        newest = getattr(interface, name, None)
        if name.startswith("_") or not isinstance(own, FunctionType) or not isinstance(newest, FunctionType):
            continue
        mine = inspect.signature(own).parameters
        kinds = {parameter.kind for parameter in mine.values()}
        missing = [
            key
            for key, p in inspect.signature(newest).parameters.items()
            if (p.kind not in kinds if p.kind in _VARIABLE else key not in mine and p.default is not p.empty)
        ]
        if missing and inspect.Parameter.VAR_KEYWORD not in kinds:
            found[name] = missing
    return found


def _dropping(cls: type, name: str, own: FunctionType, newest: FunctionType) -> Any:
    mine, known = inspect.signature(own).parameters, inspect.signature(newest).parameters
    taken = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in mine.values())
    if any(p.kind is p.VAR_POSITIONAL for p in mine.values()):
        taken = sys.maxsize
    order = [key for key, parameter in known.items() if parameter.kind not in _VARIABLE]
    warned = False

    @functools.wraps(own)
    def taking_less(*args: Any, **kwargs: Any) -> Any:
        nonlocal warned
        lost = dict(zip([*order, *map(str, range(len(args)))][taken:], args[taken:], strict=False))
        lost |= {key: value for key, value in kwargs.items() if key not in mine}
        lost = {key: value for key, value in lost.items() if key not in known or value is not known[key].default}
        if lost and not (warned and _CHANGES_NUMBERS.isdisjoint(lost)):
            warned = True
            shown = ", ".join(f"{key}={value!r:.60}" for key, value in lost.items())
            text = f"{cls.__name__}.{name}() was written for an older interface and does not take {shown}"
            remedy = "Get a newer version of the package that brings it."
            if not _CHANGES_NUMBERS.isdisjoint(lost):
                raise ConfigError(f"{text}; without it the numbers would be wrong. {remedy}", code="LT724")
            warn(f"{text}: dropped. {remedy}", code="LT723")
        return own(*args[:taken], **{key: value for key, value in kwargs.items() if key in mine})

    return taking_less
