"""Hyperparameters: what a class was made with, kept so that a checkpoint can make it again."""

from __future__ import annotations

import copy
import dataclasses
import enum
import inspect
import os
import re
import sys
import types
import typing
from argparse import Namespace
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import Tensor

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean, warn
from lt_core.files.plain_data import ATOMS, MAX_DEPTH

__all__ = [
    "AttributeDict",
    "HyperparametersMixin",
    "annotated_classes",
    "constructor_hints",
    "enum_member",
    "is_sketch",
    "makes_new",
    "plain_hparams",
    "saved_hparams",
    "settle_hparams",
    "whole_config",
    "with_types",
]


class AttributeDict(dict[str, Any]):
    """A dict whose items are attributes too: ``hparams.lr`` is ``hparams["lr"]``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            hint = did_you_mean(name, map(str, self))
            raise AttributeError(
                f"there is no {name!r} among {', '.join(map(str, self)) or 'nothing'}.{hint}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}") from None

    def __repr__(self) -> str:
        if not self:
            return ""
        width = max(len(str(name)) for name in self) + 3
        return "\n".join(f'"{name}":'.ljust(width) + f" {self[name]}" for name in sorted(self, key=str))


_Made = TypeVar("_Made")


def makes_new(method: _Made) -> _Made:
    """Decorate a class method that returns a new object: called on an object, which would stay as it is, it raises."""
    made: Any = _MakesNew(method.__func__)  # type: ignore[attr-defined]
    return made  # type: ignore[no-any-return]


class _MakesNew(classmethod):  # type: ignore[type-arg]
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return super().__get__(None, owner)
        kind, name = type(instance).__qualname__, self.__func__.__name__

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise ConfigTypeError(
                f"{name}() was called on an object and would load nothing into it: it makes a new one. Write "
                f"model = {kind}.{name}(path), or load the weights alone into this one: "
                "model.load_state_dict(torch.load(path)['state_dict']).",
                code="LT608",
            )

        return refuse


class HyperparametersMixin:
    """Gives a class :meth:`save_hyperparameters` and :attr:`hparams`. Brings no ``__init__`` of its own."""

    def save_hyperparameters(
        self,
        *args: Any,
        ignore: Sequence[str] | str | None = None,
        frame: FrameType | None = None,
        logger: bool = True,
    ) -> None:
        """Keep the arguments of ``__init__`` in :attr:`hparams`; call it there.

        Arguments of the subclasses' ``__init__`` are kept as well, and those in ``**kwargs`` by their own names. What
        comes in through ``*args`` cannot be kept. Values that are not plain data (modules, functions, objects) are kept
        here, but saved by name only: one warning says what must be given again at load. An enum member or a dataclass
        comes back where the argument's annotation is its class, and is saved by name otherwise.

        Args:
            args: names of the arguments to keep; or one object that holds them all: a dict, a Namespace or a dataclass
                instance. Default: all.
            ignore: names to leave out, also of what a parent's ``__init__`` has kept.
            frame: the frame of the ``__init__``, where a function in between makes this call.
            logger: whether loggers get them at the start of a run.

        Raises:
            ConfigError: for a name that is no argument, or a call from outside of ``__init__`` without an object.
            ConfigTypeError: for something that holds no names.
        """
        given = _init_arguments(self, frame or sys._getframe(1))
        left_out = {ignore} if isinstance(ignore, str) else set(ignore or ())
        found, argument = _chosen(self, args, given)
        kept = {str(name): value for name, value in found.items() if name not in left_out}
        state = self.__dict__
        state["_log_hyperparams"] = logger
        state["_hparams_name"] = argument
        state["_hparams_config"] = _of_omegaconf(found)
        new = {name: value for name, value in kept.items() if name not in self.hparams}
        for name in left_out.intersection(self.hparams):  # a parent has kept it
            del self.hparams[name]
        self.hparams.update(kept)
        state["_hparams_initial"] = AttributeDict({name: _copied(value) for name, value in self.hparams.items()})
        _warn_of_names_only(self, new, argument)

    @property
    def hparams(self) -> AttributeDict:
        """The hyperparameters kept by :meth:`save_hyperparameters`; changes to them are saved and logged."""
        hparams: AttributeDict = self.__dict__.setdefault("_hparams", AttributeDict())
        return hparams

    @hparams.setter
    def hparams(self, value: Any) -> None:
        raise ConfigError(
            f"{type(self).__qualname__}.hparams cannot be assigned: it is what save_hyperparameters keeps. Write "
            "self.save_hyperparameters(hparams) in __init__ for a dict, a Namespace or a dataclass; later, change its "
            "items: self.hparams['lr'] = 0.1.",
            code="LT195",
        )

    @property
    def hparams_initial(self) -> AttributeDict:
        """The hyperparameters as they were when they were kept."""
        initial: AttributeDict = self.__dict__.get("_hparams_initial", AttributeDict())
        return AttributeDict({name: _copied(value) for name, value in initial.items()})

    @property
    def logs_hyperparameters(self) -> bool:
        """Whether loggers get :attr:`hparams` at the start of a run."""
        return bool(self.__dict__.get("_log_hyperparams", False))


def plain_hparams(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters for people and loggers: numbers, strings, lists and dicts; the rest by name.

    Enums become their names (those that are strings or numbers, their values), paths, dtypes and devices strings,
    namespaces and dataclasses dicts, small tensors and arrays lists; of large ones the shape is given.
    """
    return {str(name): _Form(names=True).of(value) for name, value in hparams.items()}


def is_sketch(value: Any) -> bool:
    """Return whether :func:`plain_hparams` wrote this text in place of many numbers."""
    return isinstance(value, str) and re.fullmatch(r"tensor of shape \(.*\)", value) is not None


def saved_hparams(owner: HyperparametersMixin, prefix: str = "", *, objects: bool = False) -> dict[str, Any]:
    """Return the entries that a checkpoint holds for ``owner``; none where it kept no hyperparameters.

    Keys, in Lightning's layout: ``hyper_parameters`` (a dict of those that are plain data), ``hparams_name`` (the
    argument that takes them all, or ``"kwargs"``), and ours: ``hparams_by_name`` (a dict of the others: only names),
    ``hparams_arrays`` (the keys that lead to each tensor that was an array of numpy), ``hparams_types`` (by type, those
    that lead to each string that was a path, and each set that was a frozenset).

    Args:
        owner: a module or a datamodule.
        prefix: ``"datamodule_"`` for a datamodule.
        objects: keep all as they are, for a file that may hold any object.
    """
    marks: list[tuple[str, list[Any]]] = []
    plain, by_name = (dict(owner.hparams), {}) if objects else _split(owner, owner.hparams, marks)
    if not plain and not by_name:
        return {}
    entries: dict[str, Any] = {
        "hyper_parameters": plain,
        "hparams_name": owner.__dict__.get("_hparams_name") or "kwargs",
    }
    if owner.__dict__.get("_hparams_config"):
        marks.append(("DictConfig", []))
    _note(entries, by_name, marks)
    return {prefix + key: value for key, value in entries.items()}


def settle_hparams(checkpoint: dict[str, Any], owner: HyperparametersMixin) -> None:
    """Treat what a hook put among the hyperparameters of a checkpoint as any other: by name where it is no plain data.

    Args:
        checkpoint: changed in place.
        owner: whose hook it was; warned of once.
    """
    marks: list[tuple[str, list[Any]]] = []
    plain, by_name = _split(owner, checkpoint.get("hyper_parameters", {}), marks)
    if marks or by_name:
        checkpoint["hyper_parameters"] = plain
        _note(checkpoint, by_name, marks)
    warned: set[str] = owner.__dict__.setdefault("_warned_by_name", set())
    new = [name for name in by_name if name not in warned]
    if new:
        warned.update(new)
        kind = type(owner).__qualname__
        warn(
            f"{kind}.on_save_checkpoint puts {', '.join(map(repr, new))} among the hyperparameters, which cannot be "
            f"saved as plain data, so the checkpoint holds only the name. To load it: "
            f"{kind}.load_from_checkpoint(path, {', '.join(f'{name}=...' for name in new)}).",
            code="LT602",
        )


def _split(
    owner: HyperparametersMixin, hparams: Mapping[str, Any], marks: list[tuple[str, list[Any]]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the hyperparameters that are plain data, and the names of the others; note what a file says besides."""
    plain: dict[str, Any] = {}
    by_name: dict[str, Any] = {}
    hints = _hints_of(owner)
    for name, value in hparams.items():
        form = _Form(annotated=_is_annotated(value, hints.get(name)))
        try:
            plain[name] = form.of(value, (name,))
        except _NotPlainError:
            by_name[name] = _Form(names=True).of(value)
        else:
            marks += form.marks
    return plain, by_name


def _note(checkpoint: dict[str, Any], by_name: dict[str, Any], marks: list[tuple[str, list[Any]]]) -> None:
    """Add what a file says beside the plain data."""
    if by_name:
        checkpoint["hparams_by_name"] = {**checkpoint.get("hparams_by_name", {}), **by_name}
    for kind, keys in marks:
        if kind == "ndarray":
            checkpoint.setdefault("hparams_arrays", []).append(keys)
        else:
            checkpoint.setdefault("hparams_types", {}).setdefault(kind, []).append(keys)


# ---- what annotations bring back -------------------------------------------------------------------------------------


def constructor_hints(cls: type[Any]) -> dict[str, Any]:
    """Return the annotations of ``cls.__init__``, none where they cannot be resolved: no reason not to load."""
    try:
        return typing.get_type_hints(cls.__init__)
    except Exception:
        return {}


def annotated_classes(hint: Any) -> list[type[Any]]:
    """Return the classes that an annotation allows: those of ``A | None`` are ``A`` and ``NoneType``."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return [kind for kind in kinds if isinstance(kind, type)]


def enum_member(kind: type[enum.Enum], saved: Any) -> enum.Enum | None:
    """Return the member that a file means by a name or a value; None where there is none."""
    if isinstance(saved, str) and saved in kind.__members__:
        return kind[saved]
    return next((member for member in kind if member.value == saved), None)


def _hints_of(owner: HyperparametersMixin) -> dict[str, Any]:
    """Return the annotation of each hyperparameter: an argument's, or a field's of the dataclass that holds them."""
    hints = constructor_hints(type(owner))
    holders = annotated_classes(hints.get(owner.__dict__.get("_hparams_name") or ""))
    holder = next((kind for kind in holders if dataclasses.is_dataclass(kind)), None)
    return hints if holder is None else typing.get_type_hints(holder)


def _comes_back(value: Any, hint: Any) -> bool:
    """Return whether a file of plain data can give ``value`` back, where the constructor is annotated with ``hint``."""
    if _is_annotated(value, hint):
        return True
    try:
        _Form().of(value)
    except _NotPlainError:
        return False
    return True


def _is_annotated(value: Any, hint: Any) -> bool:
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
    return all(field.init and _comes_back(getattr(value, field.name), hints.get(field.name)) for field in fields)


# ---- what __init__ was called with -----------------------------------------------------------------------------------


def _init_arguments(owner: object, frame: FrameType) -> dict[str, Any] | None:
    """Return the arguments of all ``__init__`` of ``owner`` that run now, a subclass's over its parent's."""
    arguments: dict[str, Any] | None = None
    place: FrameType | None = frame
    while place is not None:
        names, _, rest, local = inspect.getargvalues(place) if place.f_code.co_name == "__init__" else _NO_ARGUMENTS
        if names and local.get(names[0]) is owner:
            more = local.get(rest or "")
            arguments = {**(arguments or {}), **{name: local[name] for name in names[1:] if name in local}}
            arguments.update(more if isinstance(more, dict) else {})
        place = place.f_back
    if arguments is not None and dataclasses.is_dataclass(owner):
        arguments.update({f.name: getattr(owner, f.name) for f in dataclasses.fields(owner) if f.init})
    return arguments


_NO_ARGUMENTS = inspect.ArgInfo([], None, None, {})


def _chosen(owner: object, args: Sequence[Any], given: dict[str, Any] | None) -> tuple[Mapping[str, Any], str | None]:
    """Return what to keep, and the name of the argument that takes it (``"kwargs"``: each by its own name)."""
    kind = type(owner).__qualname__
    objects = [arg for arg in args if not isinstance(arg, str)]
    if objects:
        holder, found = objects[0], _opened(objects[0])
        if len(args) > 1 or not isinstance(found, Mapping):
            raise ConfigTypeError(
                f"save_hyperparameters got a {type(holder).__qualname__}{' among others' * (len(args) > 1)}: expected "
                "names of arguments, or one dict, Namespace or dataclass instance.",
                code="LT192",
            )
        return found, next((name for name, value in (given or {}).items() if value is holder), None)
    if given is None:
        raise ConfigError(
            f"save_hyperparameters was called outside of {kind}.__init__, so there are no arguments to keep. Call it "
            "in __init__, or give it a dict of hyperparameters.",
            code="LT193",
        )
    if not args:
        return given, "kwargs" if given else None
    for name in args:
        if name not in given:
            raise ConfigError(
                f"save_hyperparameters({name!r}): {kind}.__init__ has no argument {name!r}; it has "
                f"{', '.join(given) or 'none'}.{did_you_mean(name, given)}",
                code="LT193",
            )
    return {name: given[name] for name in args}, "kwargs"


def _opened(value: Any) -> Any:
    """Return the names and values in a Namespace or a dataclass instance; anything else as it is."""
    if isinstance(value, Namespace):
        return vars(value)
    if _is_record(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


# ---- plain data ------------------------------------------------------------------------------------------------------


class _NotPlainError(Exception):
    """A value that has no form as plain data."""


class _Form:
    """Turns values to plain data. What has no such form raises ``_NotPlainError``.

    Args:
        names: give texts for people: the name of what has no form, numbers of tensors, sorted sets.
        annotated: give enum members and dataclasses the form from which an annotation brings them back.

    Attributes:
        marks: what a file says beside the plain data: types, each with the keys that lead to a value of it.
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
            raise _NotPlainError
        if (mark := _mark(value)) is not None:
            self.marks.append((mark, list(keys)))
            value = _resolved(value)
        simple = _simple(value)
        if simple is not None:
            return _shown(simple) if self.names else simple
        value = _opened(value)
        if not isinstance(value, (dict, list, tuple, AbstractSet)) and not _of_omegaconf(value):
            return self._named(value)
        if isinstance(value, Mapping):
            same: Any = type(value) if type(value) in (OrderedDict, Counter) and not self.names else dict
            return same({(key := _key(k, self.names)): self.of(item, (*keys, key)) for k, item in value.items()})
        if isinstance(value, AbstractSet):
            return sorted(map(self.of, value), key=str) if self.names else set(map(_key, value))
        if isinstance(value, Sequence):
            items = [self.of(item, (*keys, index)) for index, item in enumerate(value)]
            return tuple(items) if isinstance(value, tuple) else items
        return self._named(value)

    def _named(self, value: Any) -> str:
        if not self.names:
            raise _NotPlainError
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


_MARKED: dict[str, type] = {
    "frozenset": frozenset,
    "Path": Path,
    "PurePosixPath": PurePosixPath,
    "PureWindowsPath": PureWindowsPath,
}
"""Types that a file names, and a reader makes of a set or a string. No file can name any other."""

_EXACT = (dict, OrderedDict, Counter, list, tuple, set, frozenset, AttributeDict)


def _mark(value: Any) -> str | None:
    """Return the name of a type in the file, for values that are saved in the form of another."""
    if _is_array(value):
        return "ndarray"
    if _of_omegaconf(value):
        return type(value).__name__ if type(value).__name__ in _CONFIGS else None
    named = Path if isinstance(value, Path) else type(value)
    exact = type(value) in (frozenset, type(Path()), PurePosixPath, PureWindowsPath)
    return next((name for name, kind in _MARKED.items() if kind is named), None) if exact else None


def _is_more(value: Any) -> bool:
    """Return whether the plain form of a value would be another value: of an enum member, the text is not it."""
    if isinstance(value, enum.Enum) or _is_record(value):
        return True
    if isinstance(value, (os.PathLike, PurePath)):
        return _mark(value) is None
    if isinstance(value, (dict, list, tuple, AbstractSet)):
        # the dicts of attributes of other packages are read with attributes too
        return type(value) not in _EXACT and type(value).__name__ != "AttributeDict" and not _of_omegaconf(value)
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and not _is_array(value)


def _of_omegaconf(value: Any) -> bool:
    return type(value).__module__.startswith("omegaconf.")


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
    raise _NotPlainError


def _simple(value: Any) -> Any | None:
    """Return the plain form of a value that holds no others, or None where it has none."""
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value, (str, int, float)) else value.name
    kinds: tuple[Any, ...] = (int, float, complex, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Tensor):
        return None if value.is_meta else _plain_tensor(value)
    if _is_array(value):
        return torch.tensor(value)
    if (
        type(value).__module__ == "numpy"
        and getattr(value, "dtype", None) is not None
        and value.dtype.kind in "biufcSU"
    ):
        return value.tolist()  # scalars; for people, arrays of what torch has no type for too
    return None


def _plain_tensor(value: Tensor) -> Tensor | None:
    """Return a tensor's data as a tensor of torch's own class; None for one that only stands for others (DTensor)."""
    if type(value) in (Tensor, torch.nn.Parameter):
        return value.detach()
    wraps = type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
    return None if wraps else value.detach().as_subclass(Tensor)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy whose data a tensor can hold."""
    kind = type(value)
    if kind.__module__ != "numpy" or kind.__name__ != "ndarray":
        return False
    return isinstance(getattr(torch, value.dtype.name, None), torch.dtype) and value.dtype.isnative


def with_types(value: Any, arrays: Any, kinds: Any) -> Any:
    """Return saved hyperparameters with the types back that a file says beside them.

    Args:
        value: plain data.
        arrays: the keys that lead to each tensor that was an array of numpy.
        kinds: the same for each other type, by its name. Names that are not ours are passed over.
    """
    value = _changed(value, lambda it: it.cpu().numpy() if isinstance(it, Tensor) else it, _paths(arrays))
    for name, kind in _MARKED.items():
        form = set if kind is frozenset else str
        paths = _paths(kinds.get(name) if isinstance(kinds, dict) else None)
        value = _changed(value, lambda it, kind=kind, form=form: kind(it) if type(it) is form else it, paths)
    for name in _CONFIGS:
        paths = [path for path in _paths(kinds.get(name) if isinstance(kinds, dict) else None) if path]
        value = _changed(value, _as_config, paths)
    return value


# ---- omegaconf -------------------------------------------------------------------------------------------------------

_CONFIGS = ("DictConfig", "ListConfig")


def _resolved(value: Any) -> Any:
    """Return what a container of omegaconf's holds, with the values that its interpolations stand for."""
    return sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=True) if _of_omegaconf(value) else value


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


def _paths(found: Any) -> list[Sequence[Any]]:
    """Return what a file gives as a list of keys that lead somewhere; anyone may have written it."""
    paths = found if isinstance(found, list) else []
    return [p for p in paths if isinstance(p, list) and all(type(key) in ATOMS or type(key) is tuple for key in p)]


def _changed(value: Any, change: Any, paths: Sequence[Sequence[Any]]) -> Any:
    """Return ``value`` with ``change`` made where ``paths`` lead."""
    if any(len(path) == 0 for path in paths):
        return change(value)
    inside: dict[Any, list[Sequence[Any]]] = {}
    for path in paths:
        inside.setdefault(path[0], []).append(path[1:])
    if not inside:
        return value
    if isinstance(value, dict):
        new = {key: _changed(item, change, inside.get(key, ())) for key, item in value.items()}
        return OrderedDict(new) if type(value) is OrderedDict else new
    if type(value) in (list, tuple):
        return type(value)([_changed(item, change, inside.get(index, ())) for index, item in enumerate(value)])
    return value


def _copied(value: Any) -> Any:
    """Return a copy of containers and tensors; modules, functions and other objects stay the same."""
    if isinstance(value, dict) and type(value) in (dict, AttributeDict):
        return type(value)({key: _copied(item) for key, item in value.items()})
    if type(value) in (list, tuple, set):
        return type(value)(_copied(item) for item in value)
    if _is_array(value):
        return value.copy()
    if _of_omegaconf(value):
        return copy.deepcopy(value)
    return value.detach().clone() if type(value) is Tensor else value


def _warn_of_names_only(owner: HyperparametersMixin, kept: Mapping[str, Any], argument: str | None) -> None:
    names = list(_names_only(owner, kept))
    if not names:
        return
    again = ", ".join(f"{name}=..." for name in names) if argument == "kwargs" else f"{argument or 'it'}=..."
    kind = type(owner).__qualname__
    warn(
        f"{kind}.save_hyperparameters(): {', '.join(map(repr, names))} cannot be saved as plain data, so checkpoints "
        f"hold only the name. To load one: {kind}.load_from_checkpoint(path, {again}). To leave it out in silence: "
        f"save_hyperparameters(ignore={names!r}).",
        code="LT651",
    )


def _names_only(owner: HyperparametersMixin, kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield what can only be saved by name, and must be given again at load: it is no argument's default."""
    hints = _hints_of(owner)
    lost = [name for name, value in kept.items() if not _comes_back(value, hints.get(name))]
    if not lost:
        return
    parameters = inspect.signature(type(owner).__init__).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in lost:
        if parameters[name].default is not kept[name] if name in parameters else takes_all:
            yield name
