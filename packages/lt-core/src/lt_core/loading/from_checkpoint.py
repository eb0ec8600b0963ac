"""Modules and datamodules made from checkpoints; loading of weights, with errors that list each mismatch."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import typing
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path, PurePath
from typing import IO, Any

import torch
from torch import Tensor, nn

from lt_core import plugins
from lt_core.checkpoint import CheckpointIO, shards_of
from lt_core.data_setup import SetupDraws
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError, did_you_mean, nearest_name, warn
from lt_core.files._hparams_form import (
    annotated_classes,
    constructor_hints,
    enum_member,
    hparams_with_types,
    opened,
    whole_config,
)
from lt_core.files.checkpoint_header import HEADER_KEY, warn_of_newer
from lt_core.files.typed_data import with_types
from lt_core.hparams import AttributeDict, plain_hparams

__all__ = ["as_compiled", "check_left_out", "load_from_checkpoint", "load_state_dict_strictly"]


_MOST = 8
"""Keys of each sort that an error lists."""


def load_from_checkpoint(
    cls: type[Any],
    checkpoint_path: str | PathLike[str] | IO[bytes],
    map_location: Any = None,
    hparams_file: str | PathLike[str] | None = None,
    strict: bool | None = None,
    *,
    trusted: bool = False,
    **kwargs: Any,
) -> Any:
    """Make a ``cls``, a module or a datamodule, from a checkpoint; see ``LightningModule.load_from_checkpoint``.

    Saved hyperparameters that ``cls.__init__`` takes go there, ``kwargs`` over them. Where its annotations ask for an
    enum, a path or a dataclass, plain data is turned back to one. Then a module's ``on_load_checkpoint`` is called and
    its weights are loaded; a datamodule's ``load_state_dict`` gets its saved state.

    Raises:
        CheckpointError: for a file that cannot be read, hyperparameters that are missing, weights that do not fit.
        ConfigError: for an argument that is nearly one of ``cls.__init__``; any other unknown one is ignored, with a
            warning.
    """
    io, shown = CheckpointIO(), str(getattr(checkpoint_path, "name", "the open file"))
    if isinstance(checkpoint_path, (str, PathLike)):
        shown = str(checkpoint_path)
        io = (shards_of(io) if Path(checkpoint_path).is_dir() else None) or io
    checkpoint = with_types(io.load_checkpoint(checkpoint_path, map_location, trusted=trusted))
    warn_of_newer(checkpoint, shown)
    if HEADER_KEY not in checkpoint:  # not lt's: Lightning has had three keys for hyperparameters
        parts = [opened(checkpoint.get(key)) for key in ("hparams", "module_arguments", "hyper_parameters")]
        checkpoint["hyper_parameters"] = {k: v for part in parts if isinstance(part, Mapping) for k, v in part.items()}
    if hparams_file is not None:
        plugins.load("defaults", "hparams_file")(checkpoint, hparams_file)
    loaded = _made(cls, checkpoint, kwargs, shown)
    kind = "module" if isinstance(loaded, nn.Module) else "datamodule"
    if draws := checkpoint.get("setup_draws", {}).get(kind):
        SetupDraws(draws).keep(loaded)
    if not isinstance(loaded, nn.Module):
        if type(loaded).__qualname__ in checkpoint:
            loaded.load_state_dict(checkpoint[type(loaded).__qualname__])
        return loaded
    loaded.configure_model()  # type: ignore[operator]
    loaded.on_load_checkpoint(checkpoint)  # type: ignore[operator]
    if "state_dict" not in checkpoint:
        raise CheckpointError(
            f"{shown} has no key 'state_dict', but {', '.join(map(repr, checkpoint)) or 'nothing'}: it is no "
            "checkpoint of lt or Lightning. For bare weights: make the module, then load_state_dict(torch.load(path)).",
            code="LT661",
        )
    strictly = bool(getattr(loaded, "strict_loading", True)) if strict is None else strict
    load_state_dict_strictly(
        loaded, checkpoint["state_dict"], shown, strict=strictly, left_out=checkpoint.get("left_out", ())
    )
    return loaded


def load_state_dict_strictly(
    module: nn.Module,
    state: Mapping[str, Any],
    path: str | PathLike[str],
    *,
    strict: bool = True,
    left_out: Collection[str] = (),
    hparams: Mapping[str, Any] | None = None,
) -> None:
    """Load weights; mismatches are listed with the nearest names.

    Args:
        module: gets the weights.
        state: a state dict.
        path: where it comes from, for errors.
        strict: False: missing and unexpected keys are a warning; wrong shapes are an error all the same.
        left_out: keys that were left out of the file on purpose (a partial save), and may be missing; where the file
            describes them, the module's own values are compared, by lt-tuning.
        hparams: the hyperparameters in the file; an error names the different ones of the module.

    Raises:
        CheckpointError: for missing, unexpected and wrongly shaped keys; the module may then be loaded in part.
    """
    check_left_out(module, state, left_out, path)
    own = module.state_dict()
    state = as_compiled(state, own)
    if any(type(value) is dict for value in state.values()):
        state = plugins.load("defaults", "unflatten_weights")(state, own, path)
    shapes = [
        f"{key}: {tuple(state[key].shape)} in the file, {tuple(value.shape)} in the module"
        for key, value in own.items()
        if isinstance(value, Tensor) and isinstance(state.get(key), Tensor) and state[key].shape != value.shape
    ]
    if type(module).load_state_dict is not nn.Module.load_state_dict or any(map(nn.parameter.is_lazy, own.values())):
        shapes = []
    if shapes:
        missing, unexpected = [key for key in own if key not in state], [key for key in state if key not in own]
    else:
        try:
            result = module.load_state_dict(state, strict=False)
        except RuntimeError as error:
            raise CheckpointError(
                f"{path} does not fit {type(module).__qualname__}: {error}. Load it into the class and with the "
                "arguments that it was made with.",
                code="LT662",
            ) from error
        missing, unexpected = getattr(result, "missing_keys", []), list(getattr(result, "unexpected_keys", ()))
    missing = [key for key in missing if key not in left_out]
    if not (shapes or missing or unexpected):
        return
    text = _differences(f"{path} does not fit {type(module).__qualname__}.", own, shapes, missing, unexpected, state)
    if not (strict or shapes):
        warn(text, code="LT663")
        return
    way_out = "Load it into the class and with the arguments that it was made with" + _made_with(module, hparams or {})
    if not shapes:
        way_out += ", or load the weights that fit with strict=False"
    raise CheckpointError(f"{text} {way_out}.", code="LT662")


# ---- the object ------------------------------------------------------------------------------------------------------


def _made(cls: type[Any], checkpoint: dict[str, Any], given: dict[str, Any], shown: str) -> Any:
    prefix = "" if issubclass(cls, nn.Module) else "datamodule_"
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    kinds, by_name = checkpoint.get(prefix + "hparams_types", {}), checkpoint.get(prefix + "hparams_by_name", {})
    found = checkpoint.get(prefix + "hyper_parameters")
    plain = {str(name): value for name, value in (found if isinstance(found, dict) else {}).items()}
    plain.pop("_instantiator", None)
    saved = hparams_with_types(plain, checkpoint.get(prefix + "hparams_arrays", ()), kinds)
    arguments = {**saved, **given}
    if (holder := checkpoint.get(prefix + "hparams_name")) in named:
        inside = {name: value for name, value in given.items() if name in {*saved, *by_name} and name not in named}
        whole = {**saved, **inside}
        if holder not in given and (lost := {name: by_name[name] for name in by_name if name not in whole}):
            names = ", ".join(f"{name} ({value})" for name, value in lost.items())
            warn(
                f"{cls.__qualname__}: {names} were saved by name only and are not in {holder!r}. Pass them: "
                f"{cls.__qualname__}.load_from_checkpoint(path, {_as_keywords(lost)}).",
                code="LT665",
            )
        arguments = {holder: whole_config(whole, kinds) or AttributeDict(whole)}
        arguments |= {name: value for name, value in given.items() if name not in inside}
    if not takes_all:
        _check_names(cls, saved, [name for name in given if name in arguments], named, named.keys() - arguments.keys())
        arguments = {name: value for name, value in arguments.items() if name in named}

    def check_complete(where: str, missing: list[str]) -> None:
        notes = [f"{name} (saved by name only: {by_name[name]})" if name in by_name else name for name in missing]
        none = f" {shown} holds no hyperparameters: save_hyperparameters() in __init__ keeps those not in its ignore."
        if missing:
            raise CheckpointError(
                f"{where} needs {', '.join(notes)}, which the checkpoint does not hold."
                f"{'' if arguments or by_name else none} "
                f"Pass it: {cls.__qualname__}.load_from_checkpoint(path, {_as_keywords(missing)}).",
                code="LT660",
            )

    missing = [name for name, p in named.items() if p.default is p.empty and name not in arguments]
    check_complete(f"{cls.__qualname__}.__init__", missing)
    for name, value in by_name.items():
        if name in named and name not in arguments and plain_hparams({"": named[name].default})[""] != value:
            warn(
                f"{cls.__qualname__}: {name} was saved by name only ({value}), so its default is taken: "
                f"{named[name].default!r}. Pass it: {cls.__qualname__}.load_from_checkpoint(path, {name}=...).",
                code="LT665",
            )
    hints = constructor_hints(cls)
    try:
        return cls(**{n: v if n in given else _as_annotated(v, hints.get(n)) for n, v in arguments.items()})
    except TypeError as error:
        told = re.search(r"(\S+)\(\) (?:got an unexpected|missing .* required) .*argument.*?'(\w+)'", str(error))
        if not takes_all or told is None:
            raise
        where, name = f"{told[1]}, to which {cls.__qualname__} hands its **kwargs,", told[2]
        check_complete(where, [] if name in arguments else [name])
        way = "Leave it out." if name in given else "It is from the checkpoint: take it out of **kwargs in __init__."
        raise ConfigTypeError(
            f"{cls.__qualname__}.load_from_checkpoint: {where} takes no {name!r}. {way}", code="LT194"
        ) from error


def _as_keywords(names: Iterable[str]) -> str:
    return ", ".join(f"{name}=..." for name in names)


def _check_names(
    cls: type[Any], saved: Mapping[str, Any], given: list[str], named: Mapping[str, Any], left: Iterable[str]
) -> None:
    """Refuse keywords that are nearly a parameter; warn of others, as scripts hand several classes the same.

    Warn also of values in the file that go nowhere while a parameter of nearly that name (``left``) has its default.
    """
    call, unknown = f"{cls.__qualname__}.load_from_checkpoint", [name for name in given if name not in named]
    for name in unknown:
        if hint := did_you_mean(name, named):
            raise ConfigError(
                f"{call}(..., {name}=...): __init__ takes no {name!r}, but {', '.join(named)}.{hint}", code="LT194"
            )
    if unknown:
        warn(
            f"{call}(..., {_as_keywords(unknown)}): __init__ takes no {unknown[0]!r}, but "
            f"{', '.join(named) or 'nothing'}. {'It is' if len(unknown) == 1 else 'They are'} ignored.",
            code="LT517",
        )
    for name in sorted(set(saved).difference(named)):
        near = nearest_name(name, left)  # optimizer_lr is no other word for optimizer
        if near and not name.startswith(f"{near}_") and named[near].default is not inspect.Parameter.empty:
            warn(
                f"{call}: the file holds {name}={saved[name]!r}, which __init__ does not take, and nothing for "
                f"{near!r}, which keeps its default. If it was renamed, pass {near}=...",
                code="LT517",
            )


def _as_annotated(value: Any, hint: Any) -> Any:
    """Convert plain data to the annotated type: an enum, a path, a dataclass, a Namespace."""
    for kind in annotated_classes(hint):
        if issubclass(kind, enum.Enum) and (member := enum_member(kind, value)) is not None:
            return member
        if issubclass(kind, PurePath) and isinstance(value, str):
            return kind(value)
        if dataclasses.is_dataclass(kind) and isinstance(value, dict):
            made: Any = kind
            hints = typing.get_type_hints(kind)
            fields = [field.name for field in dataclasses.fields(kind) if field.init and field.name in value]
            return made(**{name: _as_annotated(value[name], hints.get(name)) for name in fields})
        if issubclass(kind, Tensor) and isinstance(value, list):  # as a hparams.yaml holds it
            return torch.tensor(value)
        if issubclass(kind, Namespace) and isinstance(value, dict):
            return kind(**value)
        if issubclass(kind, Mapping):
            return value
    return _with_attributes(value)


def _with_attributes(value: Any) -> Any:
    """Return dicts as dicts with attributes, on all levels: a saved Namespace is a dict in the file."""
    if type(value) is dict:
        return AttributeDict({key: _with_attributes(item) for key, item in value.items()})
    return [_with_attributes(item) for item in value] if type(value) is list else value


def check_left_out(module: nn.Module, state: Mapping[str, Any], left_out: Any, path: str | PathLike[str]) -> None:
    """Compare the weights that a partial checkpoint describes with the module's own, by lt-tuning.

    Raises:
        CheckpointError: for another shape.
    """
    described = {} if not isinstance(left_out, Mapping) else left_out
    described = {key: saved for key, saved in described.items() if isinstance(saved, Mapping) and saved.get("shape")}
    if described:
        plugins.load("defaults", "check_left_out")(module, state, described, path)


# ---- weights ---------------------------------------------------------------------------------------------------------


def _made_with(module: nn.Module, saved: Mapping[str, Any]) -> str:
    """Return the hyperparameters that differ between file and module, as text."""
    own = dict(getattr(module, "hparams", {}))
    shown, mine = plain_hparams(saved), plain_hparams(own)
    other = [name for name in saved if name in own and repr(shown[str(name)]) != repr(mine[str(name)])]
    listed = ", ".join(f"{name}={saved[name]!r} (here {own[name]!r})" for name in other[:_MOST])
    return f": {listed}" if listed else ""


_COMPILED = "_orig_mod."
"""The prefix of torch.compile in the names of weights."""


def as_compiled(state: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return weights by the module's own names, where parts of it or of the module that saved are compiled."""
    mine = {key.replace(_COMPILED, ""): key for key in own}
    renamed = OrderedDict((mine.get(key.replace(_COMPILED, ""), key), value) for key, value in state.items())
    renamed._metadata = getattr(state, "_metadata", None)  # type: ignore[attr-defined]
    return renamed if len(renamed) == len(state) else state


def _differences(
    head: str,
    own: Mapping[str, Any],
    shapes: list[str],
    missing: list[str],
    unexpected: list[str],
    state: Mapping[str, Any],
) -> str:
    absent = [key for key in own if key not in state]
    listed = {
        "wrongly shaped": shapes,
        "missing in the file": [key + _nearest(key, unexpected) for key in missing],
        "unknown to the module": [key + ("" if missing else _nearest(key, absent, "module")) for key in unexpected],
    }
    for what, entries in listed.items():
        if entries:
            more = f"\n    and {len(entries) - _MOST} more" if len(entries) > _MOST else ""
            head += f"\n  {len(entries)} {what}:\n    " + "\n    ".join(entries[:_MOST]) + more
    return head + "\n"


def _nearest(key: str, others: list[str], place: str = "file") -> str:
    ending = [other for other in others if other.endswith("." + key) or key.endswith("." + other)]
    near = next(iter(ending), None) or nearest_name(key, others[:2000])
    return "" if near is None else f" (nearest in the {place}: {near})"
