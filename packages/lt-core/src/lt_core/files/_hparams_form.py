"""Hyperparameters as plain data in a file, with marks of their types, and back."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import sys
import types
import typing
from argparse import Namespace
from collections import Counter, OrderedDict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import ConfigError
from lt_core.files.plain_data import ATOMS, MAX_DEPTH
from lt_core.files.typed_data import changed, is_array, make, plain_tensor, typed_form


class NotPlainError(Exception):
    """A value that has no form as plain data."""


class Form:
    """Converts values to plain data; raises ``NotPlainError`` for a value without a plain form.

    Args:
        names: convert for people: names of other objects, numbers of tensors, sorted sets.
        annotated: give enum members and dataclasses the form from which an annotation brings them back.

    Attributes:
        marks: the types to restore, each with the keys that lead to a value.
    """

    def __init__(self, *, names: bool = False, annotated: bool = False) -> None:
        self.names, self.annotated = names, annotated
        self.marks: list[tuple[str, list[Any]]] = []

    def of(self, value: Any, keys: tuple[Any, ...] = ()) -> Any:
        if type(value) in ATOMS:
            return _shown(value) if self.names else value
        if len(keys) > MAX_DEPTH:
            raise ConfigError("A hyperparameter contains itself: it cannot be saved.", code="LT192")
        if not (self.names or self.annotated) and _is_more(value):
            raise NotPlainError
        if (mark := _mark(value)) is not None:
            self.marks.append((mark, list(keys)))
            value = _resolved(value)
        simple = _simple(value)
        if simple is not None:
            return _shown(simple) if self.names else simple
        value = opened(value)
        if isinstance(value, dict):
            same: Any = type(value) if type(value) in (OrderedDict, Counter) and not self.names else dict
            return same({(key := _key(k, self.names)): self.of(item, (*keys, key)) for k, item in value.items()})
        if isinstance(value, AbstractSet):
            return sorted(map(self.of, value), key=str) if self.names else set(map(_key, value))
        if isinstance(value, (list, tuple)):
            items = [self.of(item, (*keys, index)) for index, item in enumerate(value)]
            return tuple(items) if isinstance(value, tuple) else items
        if not self.names:
            raise NotPlainError
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"


_SHOWN = 16
"""Numbers of a tensor that are shown one by one."""


def _shown(value: Any) -> Any:
    """Return a value that holds no others, in the form for people."""
    if isinstance(value, Tensor):
        return value.tolist() if value.numel() <= _SHOWN else f"tensor of shape {tuple(value.shape)}"
    if isinstance(value, torch.Size):
        return list(value)
    return str(value) if isinstance(value, (torch.dtype, torch.device)) else value


def opened(value: Any) -> Any:
    """Return the names and values in a Namespace or a dataclass instance; anything else as it is."""
    if isinstance(value, Namespace):
        return vars(value)
    if _is_record(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name: getattr(value, name) for name in names if hasattr(value, name)}  # some are set later
    return value


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


_MARKED = ("ndarray", "frozenset", "Path", "PurePosixPath", "PureWindowsPath")
"""Types that a file names, and a reader makes of a set or a string. No file can name any other."""

_EXACT = (dict, OrderedDict, Counter, list, tuple, set, frozenset)


def _mark(value: Any) -> str | None:
    """Return the name of a type in the file, for values that are saved in the form of another."""
    if of_omegaconf(value):
        return type(value).__name__ if type(value).__name__ in _CONFIGS else None
    form = typed_form(value)
    return form[1] if form is not None and form[1] in _MARKED else None


def _is_more(value: Any) -> bool:
    """Return whether the plain form of a value would be another value: of an enum member, the text is not it."""
    if isinstance(value, enum.Enum) or _is_record(value):
        return True
    if isinstance(value, (os.PathLike, PurePath)):
        return _mark(value) is None
    if isinstance(value, (dict, list, tuple, AbstractSet)):
        # the dicts of attributes of other packages are read with attributes too
        return type(value) not in _EXACT and type(value).__name__ != "AttributeDict" and not of_omegaconf(value)
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and not is_array(value)


def _key(key: Any, names: bool = False) -> Any:
    """Return a key or a set's member as plain data; with ``names`` as text where it is more than one value."""
    if type(key) in ATOMS:
        return key
    if names:
        return str(key)
    if type(key) is tuple:
        return tuple(map(_key, key))
    if isinstance(key, (str, int, float)) and not isinstance(key, enum.Enum):
        return _simple(key)
    raise NotPlainError


def _simple(value: Any) -> Any | None:
    """Return the plain form of a value that holds no others, or None where it has none."""
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value, (str, int, float)) else value.name
    # subclasses too: np.float64 is a float, and a checkpoint holds exactly these types
    kinds: tuple[Any, ...] = (int, float, complex, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Tensor):
        return None if value.is_meta else plain_tensor(value)
    if is_array(value):
        return torch.tensor(value)
    if (
        type(value).__module__ == "numpy"
        and getattr(value, "dtype", None) is not None
        and value.dtype.kind in "biufcSU"
    ):
        return value.tolist()  # scalars; for people, also arrays without a torch type
    return None


# ---- values restored by annotations ----------------------------------------------------------------------------------


def constructor_hints(cls: type[Any]) -> dict[str, Any]:
    """Return the annotations of ``cls.__init__``, none where they cannot be resolved: no reason not to load."""
    try:
        return typing.get_type_hints(cls.__init__)
    except Exception:
        return {}


def annotated_classes(hint: Any) -> list[type[Any]]:
    """Return the classes that an annotation allows: of ``list[int] | None`` they are ``list`` and ``NoneType``."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    origins = [typing.get_origin(kind) or kind for kind in kinds]
    return [kind for kind in origins if isinstance(kind, type)]


def enum_member(kind: type[enum.Enum], saved: Any) -> enum.Enum | None:
    """Return the member that a file means by a name or a value; None where there is none."""
    if isinstance(saved, str) and saved in kind.__members__:
        return kind[saved]
    return next((member for member in kind if member.value == saved), None)


def comes_back(value: Any, hint: Any) -> bool:
    """Return whether a file of plain data can give ``value`` back, where the constructor is annotated with ``hint``."""
    if is_annotated(value, hint):
        return True
    try:
        Form().of(value)
    except NotPlainError:
        return False
    return True


def is_annotated(value: Any, hint: Any) -> bool:
    """Return whether an annotation brings ``value`` back: an enum member, or a dataclass and all that it holds."""
    of_user = [
        kind for kind in annotated_classes(hint) if issubclass(kind, enum.Enum) or dataclasses.is_dataclass(kind)
    ]
    if of_user != [type(value)]:
        return False
    if isinstance(value, enum.Enum):
        return enum_member(type(value), _simple(value)) is value
    hints = typing.get_type_hints(type(value))
    fields = dataclasses.fields(value)
    return all(field.init and comes_back(getattr(value, field.name), hints.get(field.name)) for field in fields)


# ---- from a file -----------------------------------------------------------------------------------------------------


def hparams_with_types(value: Any, arrays: Any, kinds: Any) -> Any:
    """Return saved hyperparameters with the types back that a file says beside them.

    Args:
        value: plain data.
        arrays: the keys that lead to each tensor that was an array of numpy.
        kinds: the same for each other type, by its name. Names that are not ours are passed over.
    """
    found = {**(kinds if isinstance(kinds, dict) else {}), "ndarray": arrays}
    makers: dict[str, Any] = {name: partial(make, name, None) for name in _MARKED}
    makers |= dict.fromkeys(_CONFIGS, _as_config)
    changes = [
        (keys, change)
        for name, change in makers.items()
        for keys in (found[name] if isinstance(found.get(name), list) else ())
        if isinstance(keys, list) and len(keys) <= MAX_DEPTH and (keys or name not in _CONFIGS)
    ]
    return changed(value, changes)


# ---- omegaconf -------------------------------------------------------------------------------------------------------

_CONFIGS = ("DictConfig", "ListConfig")


def of_omegaconf(value: Any) -> bool:
    return type(value).__module__.startswith("omegaconf.")


def _resolved(value: Any) -> Any:
    """Return an omegaconf container as plain data, with its interpolations resolved."""
    return sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=True) if of_omegaconf(value) else value


def whole_config(hparams: Mapping[str, Any], kinds: Any) -> Any:
    """Return all hyperparameters as the DictConfig that they were, where a file says so; else None."""
    root = isinstance(kinds, dict) and isinstance(kinds.get("DictConfig"), list) and [] in kinds["DictConfig"]
    made = _as_config({name: _resolved(value) for name, value in hparams.items()}) if root else None
    return None if isinstance(made, dict) else made


def _as_config(value: Any) -> Any:
    """Return plain data as omegaconf's, where that is installed; no text in it is an interpolation, which runs code."""
    if type(value) not in (dict, list) or find_spec("omegaconf") is None:
        return value
    return import_module("omegaconf").OmegaConf.create(_literal(value))


def _literal(value: Any) -> Any:
    if type(value) is dict:
        return {key: _literal(item) for key, item in value.items()}
    if type(value) is list:
        return [_literal(item) for item in value]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value
