"""Types by which code written for Lightning catches errors: lt's errors have those that Lightning 2.6.6 raises too."""

from __future__ import annotations

import copyreg
from functools import cache
from typing import Any

from lt_core.errors import LtError

__all__ = ["caught_by_lightnings_types"]

_CODES = {
    KeyError: "LT193 LT601 LT602 LT603 LT661",
    RuntimeError: "LT212 LT216 LT301 LT335 LT412 LT531 LT545",
    TypeError: "LT113 LT211 LT217 LT355 LT460 LT505 LT511 LT544 LT658 LT660",
    ValueError: "LT603 LT612 LT656",
}
"""Codes by the type that Lightning raises for most of the same mistakes, where lt's own class is no such error.

A type that it raises for fewer would take the others from an ``except MisconfigurationException`` below. Left out are
an AttributeError, which `hasattr` and `getattr` hide, an OSError, which has other arguments, and what only an accident
of its code raises: AssertionError, IndexError, ZeroDivisionError.
"""

_init = LtError.__init__


class _Derived(type):
    """The kind of the derived classes, which are pickled by what they are made of: no module has them by their names.

    A DataLoader's worker sends the class of its error to the process that waits for it.
    """


def caught_by_lightnings_types() -> None:
    """Have ``except`` with Lightning's type catch lt's errors in this process from now on."""
    LtError.__init__ = _init_with_types  # type: ignore[method-assign]


def _init_with_types(self: LtError, message: str, *, code: str | None = None) -> None:
    _init(self, message, code=code)
    types = tuple(kind for kind, codes in _CODES.items() if code and code in codes and not isinstance(self, kind))
    if types:
        kind: Any = type(self)
        self.__class__ = _derived(kind, types)


@cache
def _derived(base: Any, types: tuple[Any, ...]) -> Any:
    """Return the class of errors of ``base`` that are of other types too, and print and travel as those of ``base``."""

    def reduce(self: LtError) -> tuple[object, ...]:
        return _rebuilt, (base, types, self.args), self.__dict__

    namespace = {"__module__": base.__module__, "__reduce__": reduce, "__str__": Exception.__str__}
    return _Derived(base.__name__, (base, *types), namespace)


copyreg.pickle(_Derived, lambda kind: (_derived, (kind.__bases__[0], kind.__bases__[1:])))


def _rebuilt(base: Any, types: tuple[Any, ...], args: tuple[object, ...]) -> Any:
    kind = _derived(base, types)
    return kind.__new__(kind, *args)  # past __init__, which would append the code once more
