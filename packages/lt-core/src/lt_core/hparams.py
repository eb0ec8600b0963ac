"""Hyperparameters: the arguments of a class, kept so that a checkpoint can make it again."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
import typing
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, TypeVar

from torch import Tensor
from torch.nn import Module

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean, warn
from lt_core.files._hparams_form import (
    Form,
    NotPlainError,
    annotated_classes,
    comes_back,
    constructor_hints,
    is_annotated,
    of_omegaconf,
    opened,
)
from lt_core.files.typed_data import is_array

__all__ = [
    "AttributeDict",
    "HyperparametersMixin",
    "logged_hparams",
    "makes_new",
    "plain_hparams",
    "saved_hparams",
    "settle_hparams",
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

        Arguments of the subclasses' ``__init__`` are kept as well, and items of ``**kwargs`` by their own names. Values
        of ``*args`` cannot be kept. Values that are not plain data (modules, functions, objects) are kept
        here, but saved by name only: one warning names the arguments to give again at load. An enum member or a
            dataclass
        comes back where the argument's annotation is its class, and is saved by name otherwise.

        Args:
            args: names of the arguments to keep; or one object that holds them all: a dict, a Namespace or a dataclass
                instance. Default: all.
            ignore: names to leave out, including those kept by a parent's ``__init__``.
            frame: the frame of the ``__init__``, where a function in between makes this call.
            logger: whether loggers get them at the start of a run; the last call that keeps a name decides for it.

        Raises:
            ConfigError: for a name that is no argument, or a call from outside of ``__init__`` without an object.
            ConfigTypeError: for something that holds no names.
        """
        given = _init_arguments(self, frame or sys._getframe(1))
        left_out = {ignore} if isinstance(ignore, str) else set(ignore or ())
        found, argument = _chosen(self, args, given)
        kept = {str(name): value for name, value in found.items() if name not in left_out}
        state = self.__dict__
        unlogged: set[str] = state.get("_lt_unlogged", set())
        state["_lt_unlogged"] = unlogged.difference(kept) if logger else unlogged.union(kept)
        state["_hparams_name"] = argument
        state["_lt_hparams_config"] = of_omegaconf(found)
        new = {name: value for name, value in kept.items() if name not in self.hparams}
        if of_omegaconf(found) and not self.hparams and len(kept) == len(found):
            state["_hparams"] = found  # unchanged: users pass it to omegaconf's functions
        else:
            if of_omegaconf(self.hparams):  # a parent's; it may be closed to other names
                state["_hparams"] = AttributeDict(self.hparams)
            for name in left_out.intersection(self.hparams):  # a parent has kept it
                del self.hparams[name]
            self.hparams.update(kept)
        state["_hparams_initial"] = _copied(AttributeDict(self.hparams))
        logged = logger or state.get("_log_hyperparams", False)
        state["_log_hyperparams"] = logged and not state["_lt_unlogged"].issuperset(map(str, self.hparams))
        _warn_of_names_only(self, new, argument)

    @property
    def hparams(self) -> AttributeDict:
        """The hyperparameters kept by :meth:`save_hyperparameters`.

        Checkpoints hold them as they are then, with later changes; loggers get :attr:`hparams_initial`.

        A ``DictConfig`` of omegaconf's that was given to :meth:`save_hyperparameters` is here as it is.
        """
        hparams: AttributeDict = self.__dict__.setdefault("_hparams", AttributeDict())
        return hparams

    @hparams.setter
    def hparams(self, value: Any) -> None:
        raise ConfigError(
            f"{type(self).__qualname__}.hparams cannot be assigned: save_hyperparameters fills it. Write "
            "self.save_hyperparameters(hparams) in __init__ for a dict, a Namespace or a dataclass; later, change its "
            "items: self.hparams['lr'] = 0.1.",
            code="LT195",
        )

    @property
    def hparams_initial(self) -> AttributeDict:
        """The hyperparameters as they were when they were kept: a copy; modules and other objects are the same."""
        initial: AttributeDict = self.__dict__.get("_hparams_initial", AttributeDict())
        return _copied(initial)  # type: ignore[no-any-return]

    @property
    def logs_hyperparameters(self) -> bool:
        """Whether loggers get any of :attr:`hparams_initial` at the start of a run."""
        return bool(self.__dict__.get("_log_hyperparams", False))


def logged_hparams(owner: HyperparametersMixin) -> dict[str, Any]:
    """Return the first values of the hyperparameters that loggers get, in the form of :func:`plain_hparams`."""
    unlogged = owner.__dict__.get("_lt_unlogged", ())
    shown = plain_hparams(owner.hparams_initial) if owner.logs_hyperparameters else {}
    return {name: value for name, value in shown.items() if name not in unlogged}


def plain_hparams(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters for people and loggers: numbers, strings, lists and dicts; the rest by name.

    Enums become their names (of strings or numbers, their values), paths, dtypes and devices strings,
    namespaces and dataclasses dicts, small tensors and arrays lists; of large ones the shape is given.
    """
    return {str(name): Form(names=True).of(value) for name, value in hparams.items()}


def saved_hparams(owner: HyperparametersMixin, prefix: str = "", *, objects: bool = False) -> dict[str, Any]:
    """Return the entries that a checkpoint holds for ``owner``; none where it kept no hyperparameters.

    Keys, in Lightning's layout: ``hyper_parameters`` (a dict of the values that are plain data), ``hparams_name`` (the
    argument that takes them all, or ``"kwargs"``), and ours: ``hparams_by_name`` (a dict of the others: only names),
    ``hparams_arrays`` (the keys that lead to each tensor that was an array of numpy), ``hparams_types`` (by type, those
    that lead to each string that was a path, and each set that was a frozenset).

    Args:
        owner: a module or a datamodule.
        prefix: ``"datamodule_"`` for a datamodule.
        objects: keep all as they are, for a file that may hold any object.
    """
    if not owner.hparams:
        return {}
    state = owner.__dict__
    entries: dict[str, Any] = {"hyper_parameters": dict(owner.hparams)}
    if not objects:
        _make_plain(entries, owner)
    if state.get("_lt_hparams_config"):
        entries.setdefault("hparams_types", {}).setdefault("DictConfig", []).append([])
    entries["hparams_name"] = state.get("_hparams_name") or "kwargs"
    return {prefix + key: value for key, value in entries.items()}


def settle_hparams(checkpoint: dict[str, Any], owner: HyperparametersMixin) -> None:
    """Save hyperparameters that a hook added to a checkpoint like all others: by name where they are no plain data.

    Args:
        checkpoint: changed in place.
        owner: whose hook it was; warned of once.
    """
    warned: set[str] = owner.__dict__.setdefault("_warned_by_name", set())
    if new := [name for name in _make_plain(checkpoint, owner) if name not in warned]:
        warned.update(new)
        kind = type(owner).__qualname__
        warn(
            f"{kind}.on_save_checkpoint puts {', '.join(map(repr, new))} among the hyperparameters, which cannot be "
            f"saved as plain data, so the checkpoint holds only the name. To load it: "
            f"{kind}.load_from_checkpoint(path, {', '.join(f'{name}=...' for name in new)}).",
            code="LT602",
        )


def _make_plain(entries: dict[str, Any], owner: HyperparametersMixin) -> Iterable[str]:
    """Make plain data of the ``hyper_parameters`` in ``entries``, in place; return the names of the others."""
    plain: dict[str, Any] = {}
    by_name: dict[str, Any] = {}
    hints = _hints_of(owner)
    for name, value in entries.get("hyper_parameters", {}).items():
        form = Form(annotated=is_annotated(value, hints.get(name)))
        try:
            plain[name] = form.of(value, (name,))
        except NotPlainError:
            by_name[name] = Form(names=True).of(value)
            continue
        for kind, keys in form.marks:
            if kind == "ndarray":
                entries.setdefault("hparams_arrays", []).append(keys)
            else:
                entries.setdefault("hparams_types", {}).setdefault(kind, []).append(keys)
    if plain or by_name:
        entries["hyper_parameters"] = plain
    if by_name:
        entries["hparams_by_name"] = {**entries.get("hparams_by_name", {}), **by_name}
    return by_name


def _hints_of(owner: HyperparametersMixin) -> dict[str, Any]:
    """Return the annotation of each hyperparameter: an argument's, or a field's of the dataclass that holds them."""
    hints = constructor_hints(type(owner))
    holders = annotated_classes(hints.get(owner.__dict__.get("_hparams_name") or ""))
    holder = next((kind for kind in holders if dataclasses.is_dataclass(kind)), None)
    return hints if holder is None else typing.get_type_hints(holder)


# ---- the arguments of __init__ ---------------------------------------------------------------------------------------


def _init_arguments(owner: object, frame: FrameType) -> dict[str, Any] | None:
    """Return the arguments of all ``__init__`` of ``owner`` that run now, a subclass's over its parent's."""
    arguments: dict[str, Any] | None = None
    place: FrameType | None = frame
    while place is not None:
        if place.f_code.co_name == "__init__":
            names, _, rest, local = inspect.getargvalues(place)
            if names and local.get(names[0]) is owner:
                more = local.get(rest or "")  # outer frames belong to subclasses, whose arguments win
                arguments = {**(arguments or {}), **{name: local[name] for name in names[1:] if name in local}}
                arguments.update(more if isinstance(more, dict) else {})
        place = place.f_back
    if arguments is not None and dataclasses.is_dataclass(owner):
        arguments.update({f.name: getattr(owner, f.name) for f in dataclasses.fields(owner) if f.init})
    return arguments


def _chosen(owner: object, args: Sequence[Any], given: dict[str, Any] | None) -> tuple[Mapping[str, Any], str | None]:
    """Return the values to keep, and the name of the argument that takes them (``"kwargs"``: each by its own name)."""
    kind = type(owner).__qualname__
    if objects := [arg for arg in args if not isinstance(arg, str)]:
        holder, found = objects[0], opened(objects[0])
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
    names = args or list(given)
    for name in names:
        if name not in given:
            raise ConfigError(
                f"save_hyperparameters({name!r}): {kind}.__init__ has no argument {name!r}; it has "
                f"{', '.join(given) or 'none'}.{did_you_mean(name, given)}",
                code="LT193",
            )
    return {name: given[name] for name in names}, "kwargs" if names else None


def _copied(value: Any, made: dict[int, Any] | None = None) -> Any:
    """Return a copy of what holds others, and of tensors; modules, functions and other objects stay the same.

    ``made`` has copies by the ``id`` of a Namespace or dataclass instance, which may hold itself.
    """
    if isinstance(value, dict):  # other packages' dicts have attributes too, and may refuse to be filled
        kind = type(value) if type(value) in (dict, OrderedDict, Counter) else AttributeDict
        return kind({key: _copied(item, made) for key, item in value.items()})
    if type(value) in (list, tuple, set):
        return type(value)(_copied(item, made) for item in value)
    if is_array(value):
        return value.copy()
    if of_omegaconf(value):
        return copy.deepcopy(value)
    held = opened(value)
    if held is value or isinstance(value, Module):
        return value.detach().clone() if type(value) is Tensor else value
    made = {} if made is None else made
    if id(value) not in made:
        made[id(value)] = copy.copy(value)
        for name, item in held.items():
            object.__setattr__(made[id(value)], name, _copied(item, made))
    return made[id(value)]


def _warn_of_names_only(owner: HyperparametersMixin, kept: Mapping[str, Any], argument: str | None) -> None:
    """Warn of values that can only be saved by name, and must be given again at load: no argument's default is one."""
    hints, kind = _hints_of(owner), type(owner).__qualname__
    lost = [name for name, value in kept.items() if not comes_back(value, hints.get(name))]
    parameters = inspect.signature(type(owner).__init__).parameters if lost else {}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if names := [n for n in lost if (parameters[n].default is not kept[n] if n in parameters else takes_all)]:
        again = ", ".join(f"{name}=..." for name in names) if argument == "kwargs" else f"{argument or 'it'}=..."
        warn(
            f"{kind}.save_hyperparameters(): {', '.join(map(repr, names))} cannot be saved as plain data, so "
            f"checkpoints hold only the name. To load one: {kind}.load_from_checkpoint(path, {again}). To leave it "
            f"out in silence: save_hyperparameters(ignore={names!r}).",
            code="LT651",
        )
