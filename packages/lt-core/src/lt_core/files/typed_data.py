"""Values of a few more types in a checkpoint: written as plain data, with their types beside it.

A file that holds them stays plain to every reader: ``torch.load(weights_only=True)`` and older versions find numbers,
tensors, lists, dicts and strings, and the key ``lt_types`` says where one of them was something else. A reader makes
only the types of this module of them, by calls that are written here: numpy's numbers and arrays of numbers, ``deque``,
``defaultdict`` of a builtin, ``frozenset``, ``Path``; and tensors that wrap others (low-bit states of optimizers) of
classes that the process itself has declared safe to ``torch.serialization``.
"""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from lt_core import plugins
from lt_core.errors import CheckpointError
from lt_core.files.plain_data import MAX_DEPTH, Walk, key_path

__all__ = [
    "changed",
    "marks_of",
    "plain_with_types",
    "with_types",
]

_KEY = "lt_types"
"""The key of a checkpoint that says where a value was of another type: entries of keys, type and detail."""

_Mark = tuple[list[Any], Any, Any]
"""Keys, type and detail."""

_EACH = "*"
"""In place of a key: each item of a list."""

_NUMBERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"bool", "bool_", "float16", "float32", "float64", "complex64", "complex128"}  # numpy 1: "bool_"
_FACTORIES: dict[str, type] = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
_PATHS = {"Path": Path, "PurePosixPath": PurePosixPath, "PureWindowsPath": PureWindowsPath}


# ---- to plain data ---------------------------------------------------------------------------------------------------


def plain_with_types(
    tree: dict[str, Any], depth: Callable[[tuple[Any, ...]], int]
) -> tuple[dict[str, Any], dict[tuple[Any, ...], str]]:
    """Return a checkpoint as plain data and tensors, with the types that :func:`with_types` gives back.

    Args:
        tree: any nesting of containers. Tensors stay as they are, including DTensors.
        depth: for the keys of a value without a plain form, how many of them lead to the part that is left out; 0
            where none may be.

    Returns:
        The new tree, and by its keys why each part that is left out cannot be saved.

    Raises:
        CheckpointError: for a value without a plain form where nothing may be left out; for tensors without data.
    """
    with contextlib.suppress(CheckpointError, RecursionError):  # most have plain data only
        return Walk().visit(tree, ()), {}
    walk = _Typed(depth)
    plain: dict[str, Any] = walk.visit(tree, ())
    for keys in walk.gaps:
        place: Any = plain
        for key in keys[:-1]:
            place = place[key]
        if isinstance(place, dict):
            del place[keys[-1]]
    return {**plain, _KEY: walk.marks} if walk.marks else plain, walk.gaps


class _Typed(Walk):
    """Notes the types that a reader gives back, and the parts that are left out."""

    def __init__(self, depth: Callable[[tuple[Any, ...]], int]) -> None:
        super().__init__()
        self.depth = depth
        self.marks: list[_Mark] = []
        self.gaps: dict[tuple[Any, ...], str] = {}
        self._kinds: dict[int, _Mark] = {}
        self._inside: dict[int, list[Any]] = {}
        self._alive: list[Any] = []  # visited values are known by their ids

    def visit(self, value: Any, keys: tuple[Any, ...]) -> Any:
        noted = len(self.marks)
        try:
            plain = self._numbers(value) or super().visit(value, keys)
        except (CheckpointError, RecursionError) as error:
            is_weight = isinstance(value, Tensor) and keys[0] == "state_dict"
            if not keys or is_weight or len(keys) > self.depth(keys):
                raise
            del self.marks[noted:]
            self.gaps = {k: why for k, why in self.gaps.items() if k[: len(keys)] != keys}
            self.gaps[keys] = str(error)
            return None
        if type(value) is tuple:  # is made anew on each way to it
            known = self._inside.setdefault(id(value), [(k[len(keys) :], *rest) for k, *rest in self.marks[noted:]])
            self.marks[noted:] = [([*keys, *below], name, detail) for below, name, detail in known]
        self._note(value, keys)  # also where it occurs again
        return plain

    def _note(self, value: Any, keys: tuple[Any, ...]) -> None:
        if id(value) in self._kinds:
            below, name, detail = self._kinds[id(value)]
            self.marks.append(([*keys, *below], name, detail))

    def _numbers(self, value: Any) -> Any:
        """Return a list of numbers of one type as plain ones: one mark for the thousands of a history."""
        kinds = {*map(type, value)} if type(value) in (list, tuple) else set()
        if len(kinds) != 1 or not _is_number(number := kinds.pop()):
            return None
        self._kinds[id(value)] = [_EACH], number.__name__, None
        return self.done.setdefault(id(value), type(value)(item.item() for item in value))

    def key(self, key: Any, keys: tuple[Any, ...]) -> Any:
        if type(key).__module__ == "numpy" and (form := typed_form(key)):
            return form[0]  # the same key to any dict
        return super().key(key, keys)

    def other(self, value: Any, keys: tuple[Any, ...]) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value, keys)
        if (form := typed_form(value)) is None:
            raise self.refusal(value, keys)
        plain, name, detail = form
        if name:
            self._kinds[id(value)] = [], name, detail
        self._alive.append(plain)
        found = super().visit(plain, keys)
        self._note(plain, keys)
        return found

    def _tensor(self, value: Any, keys: tuple[Any, ...]) -> Any:
        if hasattr(value, "to_local"):
            return value  # spread over ranks, each of which saves its part
        is_weight = keys[0] == "state_dict"  # the module that loads it has one like it
        if not is_traceable_wrapper_subclass(value):
            if not is_weight or (plain := plain_tensor(value)) is None:
                raise self.refusal(value, keys)
            return plain
        if (flatten := plugins.find("defaults", "flatten_tensor")) is None:
            raise CheckpointError(
                f"{key_path(self.root, keys)} is a {type(value).__qualname__}, a tensor around others, which "
                f"lt-lowbits saves: {plugins.install_hint('lt-lowbits')}",
                code="LT126",
            )
        parts, detail = flatten(value)
        if not is_weight:
            if keys[0] != "optimizer_states" or detail is None:
                raise self.refusal(value, keys)
            self._kinds[id(value)] = [], "tensor", detail
        self._alive.append(parts)
        return super().visit(parts, keys)


def _is_number(kind: type) -> bool:
    return kind.__module__ == "numpy" and kind.__name__ in _NUMBERS


def typed_form(value: Any) -> tuple[Any, str, Any] | None:
    """Return the plain form of a value, the name of the type to restore ("" for none) and its detail."""
    kind: Any = type(value)
    if kind.__module__ == "numpy":
        if _is_number(kind):
            return value.item(), kind.__name__, None
        if kind.__name__ == "ndarray":
            native = value.astype(value.dtype.newbyteorder("="), order="C")  # a copy
            if is_array(native):
                return torch.from_numpy(native), "ndarray", None
        if kind.__name__ in ("ndarray", "str_", "bytes_") and value.dtype.kind in "USO":
            return value.tolist(), "", None
        return None
    if kind is deque:
        return list(value), "deque", value.maxlen
    if kind is defaultdict and (value.default_factory is None or value.default_factory in _FACTORIES.values()):
        return dict(value), "defaultdict", getattr(value.default_factory, "__name__", None)
    if kind is frozenset:
        return set(value), "frozenset", None
    path = next((name for name, each in _PATHS.items() if kind in (each, type(each()))), None)
    return None if path is None else (str(value), path, None)


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy whose data a tensor can hold."""
    kind = type(value)
    if kind.__module__ != "numpy" or kind.__name__ != "ndarray":
        return False
    return isinstance(getattr(torch, value.dtype.name, None), torch.dtype) and value.dtype.isnative


def plain_tensor(value: Tensor) -> Tensor | None:
    """Return a tensor's data as torch's own class; None for one that only stands for others, or has no data."""
    if type(value) in (Tensor, nn.Parameter):
        return value.detach()
    wraps = type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
    return None if wraps or nn.parameter.is_lazy(value) else value.detach().as_subclass(Tensor)


# ---- from a file -----------------------------------------------------------------------------------------------------

Change = tuple[Sequence[Any], Callable[[Any], Any]]
"""The keys that lead to a value, and the function that replaces it."""


def with_types(tree: dict[str, Any]) -> dict[str, Any]:
    """Restore, in place, the types that a checkpoint names; unknown types are passed over."""
    changed(tree, [(keys, partial(make, kind, detail)) for keys, kind, detail in marks_of(tree) if kind != "tensor"])
    return tree


def marks_of(tree: dict[str, Any]) -> list[_Mark]:
    """Return the well-formed type entries of a file, which may be hostile."""
    found = tree.get(_KEY)
    return [
        each
        for each in (found if type(found) is list else ())
        if type(each) is tuple and len(each) == 3 and type(each[0]) is list and len(each[0]) <= MAX_DEPTH
    ]


def changed(value: Any, changes: Iterable[Change]) -> Any:
    """Return ``value`` with changes made in it, in place where it can be; inside first."""
    here: list[Callable[[Any], Any]] = []
    inside: dict[Any, list[Change]] = {}
    for keys, change in changes:
        with contextlib.suppress(TypeError):  # keys that are none
            if keys:
                inside.setdefault(keys[0], []).append((keys[1:], change))
            else:
                here.append(change)
    if inside and isinstance(value, dict):
        for key, below in inside.items():  # in the order of the walk: a repeated object was marked at its first place
            if key in value:
                value[key] = changed(value[key], below)
    elif inside and type(value) in (list, tuple):
        each = inside.get(_EACH, [])
        items = [changed(item, [*inside.get(i, ()), *each]) for i, item in enumerate(value)]
        if type(value) is list:
            value[:] = items
        else:
            value = tuple(items)
    for change in here:
        value = change(value)
    return value


def make(kind: Any, detail: Any, value: Any) -> Any:
    """Return ``value`` in the type that a file names, or as it is if it cannot be one: files may be hostile."""
    with contextlib.suppress(Exception):
        if kind == "ndarray" and isinstance(value, Tensor):
            return value.cpu().numpy()
        if kind in _NUMBERS and type(value) in (bool, int, float, complex) and "numpy" in sys.modules:
            # numpy 1 has no numpy.bool (removed in 1.24, back in 2.0); bool_ is in both
            return getattr(sys.modules["numpy"], kind.replace("bool_", "bool").replace("bool", "bool_"))(value)
        if kind == "deque" and type(value) is list and (detail is None or len(value) <= detail):
            return deque(value, detail)
        if kind == "defaultdict" and type(value) is dict and (detail is None or detail in _FACTORIES):
            return defaultdict(_FACTORIES.get(detail), value)
        if kind == "frozenset" and type(value) is set:
            return frozenset(value)
        if kind in _PATHS and type(value) is str:
            return _PATHS[kind](value)
    return value
