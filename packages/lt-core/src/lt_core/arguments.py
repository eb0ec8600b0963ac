"""Arguments: of constructors, compared with their annotations; of the user's functions, given by name and place."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from lt_core.errors import ConfigTypeError, counterpart, did_you_mean, warn

__all__ = ["by_place", "checks_arguments", "matched"]

P = ParamSpec("P")
T = TypeVar("T")


def checks_arguments(init: Callable[P, T]) -> Callable[P, T]:
    """Return ``__init__`` with names of arguments looked up, and flags, names, paths, numbers and functions compared
    with their annotations.

    So that ``verbose="False"`` does not mean True. 0 and 1 are flags too, and a number may be numpy's. Arguments that
    are annotated otherwise are left to the constructor.

    Raises:
        ConfigTypeError: with the expected and the received type, and the remedy.
    """
    signature = inspect.signature(init)
    rules = {name: _kinds(parameter.annotation) for name, parameter in signature.parameters.items()}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        kind = type(args[0])
        for name, value in (dict(zip(signature.parameters, args, strict=False)) | kwargs).items():
            kinds = rules.get(name)
            if kinds and not any(_KINDS[each][1](value) for each in kinds):
                raise _wrong(kind.__name__, name, value, kinds)
            if kinds is None and not takes_all:
                raise _unknown(kind, name, value)
        return init(*args, **kwargs)

    return checked


def _kinds(annotation: Any) -> list[str]:
    """Return the kinds that an annotation (a string) allows; none where it says something else too."""
    kinds = re.sub(r"\[.*\]", "", str(annotation)).split(" | ")
    return kinds if _KINDS.keys() >= set(kinds) else []


def _is_flag(value: object) -> bool:
    of_numpy = type(value).__name__ in ("bool", "bool_") and hasattr(value, "dtype")
    return of_numpy or (type(value) in (bool, int) and value in (0, 1))


_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", _is_flag),
    "str": ("a string", lambda value: isinstance(value, str)),
    "os.PathLike": ("a path", lambda value: isinstance(value, os.PathLike)),
    "float": ("a number", lambda value: hasattr(value, "__float__") and not isinstance(value, bool)),
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


def _unknown(owner: type, name: str, value: object) -> ConfigTypeError:
    inits = [vars(kind)["__init__"] for kind in owner.__mro__[:-1] if "__init__" in vars(kind)]
    named = [parameter for init in inits for parameter in [*inspect.signature(init).parameters.values()][1:]]
    known = dict.fromkeys(p.name for p in named if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
    hint = (
        counterpart(f"{owner.__name__}()", name, f"{value!r:.60}")
        or did_you_mean(name, known)
        or f" Expected: {', '.join(known) or 'none'}."
    )
    return ConfigTypeError(
        f"{owner.__name__}({name}={value!r:.60}): there is no argument {name!r}.{hint}", code="LT367"
    )


def _remedy(name: str, value: object, kinds: list[str]) -> str:
    if "bool" in kinds:
        off = str(value).strip().lower() in ("false", "no", "off", "0", "")
        return f" Write {name}={not off}."
    if "float" in kinds and isinstance(value, str):
        try:
            return f" Write {name}={float(value):g}, without quotes."
        except ValueError:
            return ""
    if "os.PathLike" in kinds:
        return f" Write {name}='folder', for instance."
    return ""


# ---- functions of the user's -----------------------------------------------------------------------------------------

NOTHING: Mapping[str, Any] = {}


def matched(
    function: Callable[..., Any],
    offered: Sequence[str],
    *,
    constants: Mapping[str, Any] = NOTHING,
    synonyms: Mapping[str, str] = NOTHING,
    always: bool = False,
) -> Callable[..., Any] | None:
    """Return a callable of the ``offered`` arguments by position that passes ``function`` the ones that it takes.

    That is ``function`` itself where it takes just these. A parameter with a name of ``offered`` gets that argument;
    the others get the remaining arguments, in the order of ``offered``: required parameters, and optional ones as
    :func:`by_place` allows. ``*args`` and ``**kwargs`` take all.

    Args:
        function: a bound method, or any callable.
        offered: the names of the arguments.
        constants: values for parameters with other names.
        synonyms: other names of offered arguments.
        always: fill optional parameters of other names whatever their default.

    Returns:
        None where a required parameter cannot be filled.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in function, or a partial of more than its function takes
        return None if isinstance(function, partial) and inspect.isroutine(function.func) else function
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    known, extra = [*offered, *constants], tuple(constants.values())
    places: list[int] = []  # index of the argument for each parameter
    keywords: dict[str, int] = {}
    passed_over = False
    names = [synonyms.get(parameter.name, parameter.name) for parameter in parameters]
    left = [place for place, name in enumerate(offered) if name not in names]
    for parameter, name in zip(parameters, names, strict=True):
        required = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_KEYWORD:
            keywords |= {offered[place]: place for place in left}
        elif parameter.kind is parameter.KEYWORD_ONLY or passed_over:
            if name in offered:
                keywords[parameter.name] = offered.index(name)
            elif required:
                return None
        elif name in known:
            places.append(known.index(name))
        elif left and (required or by_place(function, parameter, offered, always=always)):
            places.append(left.pop(0))
        elif required:
            return None
        else:
            passed_over = True
    if places == list(range(len(offered))) and not keywords:
        return function

    def call(*arguments: Any) -> Any:
        values = arguments + extra
        named = {name: values[place] for name, place in keywords.items()}
        return function(*[values[place] for place in places], **named)

    return call


def by_place(
    function: Callable[..., Any],
    parameter: inspect.Parameter,
    offered: Sequence[str],
    *,
    always: bool,
    free: bool = True,
) -> bool:
    """Return whether an optional parameter gets the next ``offered`` argument, of another name.

    ``always``: whatever its default; else where no parameter asks for it by name (``free``) and the default
    is None or a whole number, as an index has it. Otherwise the default stays, with a warning.
    """
    if always or (free and (parameter.default is None or type(parameter.default) is int)):
        return True
    own = getattr(function, "func", function)  # a callback's hook comes with Trainer and module bound
    name = parameter.name
    warn(
        f"{getattr(own, '__qualname__', own)}: {name!r} keeps its default. lt hands over "
        f"{', '.join(offered)}, in this order, and to an optional parameter of another name only where its default is "
        f"None or a whole number. Take these names; or if the default is meant, write it after a star: *, {name}=...",
        code="LT524",
        about=own,
    )
    return False
