"""Tensors that wrap others (quantized weights, low-bit states of optimizers) in checkpoints, as their plain parts.

A state of an optimizer says its class beside the parts. A reader makes only classes that the process itself has
declared safe to ``torch.serialization``; a weight is made in the manner of the module's own.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import CheckpointError
from lt_core.files.plain_data import is_plain
from lt_core.files.typed_data import changed, marks_of

__all__ = ["flatten_tensor", "restore_tensors", "unflatten_weights"]


def flatten_tensor(value: Any) -> tuple[dict[str, Tensor], list[Any] | None]:
    """Return the parts of a tensor by name, and the arguments of :func:`restore_tensors`: class, context, shape,
    strides.

    None in its place for a class that nobody has declared safe, or whose context is no plain data.
    """
    names, context = value.__tensor_flatten__()
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    safe = is_plain(context) and _declared_safe(kind) is not None
    detail = [kind, context, [*value.shape], [*value.stride()]] if safe else None
    return {name: getattr(value, name) for name in names}, detail


def restore_tensors(tree: dict[str, Any]) -> None:
    """Make the low-bit states of optimizers in a checkpoint, in place, when the module of their classes is imported.

    Raises:
        CheckpointError: for a class that nothing has declared safe.
    """
    changes = []
    for keys, kind, detail in marks_of(tree):
        if kind == "tensor" and type(detail) is list and len(detail) == 4:
            if (known := _declared_safe(detail[0])) is None:
                raise CheckpointError(
                    f"The file holds tensors of the class {detail[0]!r}, which nothing here declared safe to torch. "
                    "Import its library before the fit (such as torchao.optim), and resume with the same optimizer.",
                    code="LT603",
                )
            changes.append((keys, partial(_wrapper, known, detail)))
    changed(tree, changes)


def _wrapper(known: Any, detail: list[Any], value: Any) -> Any:
    with contextlib.suppress(Exception):  # errors of a class for senseless parts
        return known.__tensor_unflatten__(value, *detail[1:])
    return value


def unflatten_weights(state: Mapping[str, Any], own: Mapping[str, Any], path: object) -> Mapping[str, Any]:
    """Return a state dict with each quantized weight made, of the tensors that a file holds for it.

    Args:
        state: of a module, as a file has it; keeps its ``_metadata``.
        own: the module's, in whose manner a weight is made.
        path: of the file, for errors.

    Raises:
        CheckpointError: for a weight that is no such tensor in the module, or of other parts.
    """
    made = OrderedDict(state)
    for key, saved in state.items():
        if type(saved) is dict and isinstance(like := own.get(key), Tensor):
            try:
                made[key] = _unflattened(like, saved)
            except (AttributeError, ValueError) as error:
                raise CheckpointError(
                    f"{path}: {key} is a quantized weight, of the tensors {', '.join(map(str, saved))}; the module has "
                    f"a {type(like).__qualname__} ({error}). Quantize the module as for the run that saved: in "
                    "__init__ or configure_model.",
                    code="LT662",
                ) from error
    made._metadata = getattr(state, "_metadata", None)  # type: ignore[attr-defined]
    return made


def _unflattened(like: Any, saved: dict[str, Any]) -> Any:
    """Return a tensor that wraps others, with the parts in a file, in the manner of the one in the module.

    Raises:
        ValueError: for other parts than ``like`` has.
    """
    names, context = like.__tensor_flatten__()
    own = {name: getattr(like, name) for name in names}
    parts = {
        name: _unflattened(own[name], part) if type(part) is dict and name in own else part
        for name, part in saved.items()
    }
    if parts.keys() != own.keys() or _kinds(parts) != _kinds(own):
        raise ValueError(f"its parts are {_kinds(parts)}, expected {_kinds(own)}")
    moved = {name: part.to(own[name].device) for name, part in parts.items()}
    return type(like).__tensor_unflatten__(moved, context, like.shape, like.stride())


def _kinds(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: (str(part.dtype), tuple(part.shape)) for name, part in parts.items() if isinstance(part, Tensor)}


def _declared_safe(name: Any) -> Any | None:
    """Return the class of tensors of this name that a library, or the user, has declared safe to torch; none of torch's
    own, which need more than their parts.
    """
    for known in torch.serialization.get_safe_globals():
        if isinstance(known, type) and issubclass(known, Tensor) and hasattr(known, "__tensor_unflatten__"):
            if f"{known.__module__}.{known.__qualname__}" == name and not known.__module__.startswith("torch."):
                return known
    return None
