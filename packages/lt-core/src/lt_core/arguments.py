"""Arguments of constructors, compared with their annotations where they are given."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lt_core.errors import ConfigTypeError

__all__ = ["checks_arguments"]

P = ParamSpec("P")
T = TypeVar("T")


def checks_arguments(init: Callable[P, T]) -> Callable[P, T]:
    """Return ``__init__`` with flags, names, paths, numbers and functions compared with their annotations.

    So that ``verbose="False"`` does not mean True. 0 and 1 are flags too, and a number may be numpy's. Arguments that
    are annotated otherwise are left to the constructor.

    Raises:
        ConfigTypeError: saying what was expected, what was received, and the way out.
    """
    signature = inspect.signature(init)
    rules = {name: list(_kinds(parameter.annotation)) for name, parameter in signature.parameters.items()}

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        owner, *_ = args
        named = dict(zip(signature.parameters, args, strict=False))
        for name, value in {**named, **kwargs}.items():
            kinds = rules.get(name)
            if kinds and not any(_KINDS[kind][1](value) for kind in kinds):
                raise _wrong(type(owner).__name__, name, value, kinds)
        return init(*args, **kwargs)

    return checked


def _kinds(annotation: Any) -> Iterator[str]:
    """Yield the kinds that an annotation (in words) allows; none where it says something else too."""
    parts = [part.strip().split("[")[0] for part in str(annotation).split(" | ")]
    return iter(parts if all(part in _KINDS for part in parts) and _closed(str(annotation)) else ())


def _closed(annotation: str) -> bool:
    """Return whether no part of a union lies inside brackets."""
    return all(part.count("[") == part.count("]") for part in annotation.split(" | "))


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or (type(value).__name__ == "bool" and hasattr(value, "dtype")) or _is_bit(value)


def _is_bit(value: object) -> bool:
    return type(value) is int and value in (0, 1)


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)


_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", _is_flag),
    "str": ("a string", lambda value: isinstance(value, str)),
    "os.PathLike": ("a path", lambda value: isinstance(value, os.PathLike)),
    "float": ("a number", _is_number),
    "Callable": ("a function", callable),
}


def _wrong(owner: str, name: str, value: object, kinds: list[str]) -> ConfigTypeError:
    kinds = [kind for kind in kinds if kind != "str" or "os.PathLike" not in kinds]
    expected = " or ".join(_KINDS[kind][0] for kind in kinds)
    received = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    return ConfigTypeError(
        f"{owner}({name}={value!r:.60}): expected {expected}; received {received}.{_remedy(name, value, kinds)}",
        code="LT179",
    )


def _remedy(name: str, value: object, kinds: list[str]) -> str:
    if "bool" in kinds:
        off = isinstance(value, str) and value.strip().lower() in ("false", "no", "off", "0", "")
        return f" Write {name}={not off}."
    if "float" in kinds and isinstance(value, str):
        try:
            return f" Write {name}={float(value):g}, without quotes."
        except ValueError:
            return ""
    if "os.PathLike" in kinds:
        return f" Write {name}='folder', for instance."
    return ""
