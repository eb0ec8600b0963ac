"""The contents of a checkpoint as text, for ``lt ckpt show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from torch import Tensor

from lt_core.files.checkpoint_header import HEADER_KEY, Header

_Kind = TypeVar("_Kind", dict[str, Any], list[Any])

_WIDTH = 100  # characters of a value in the table


def contents(tree: Mapping[str, Any], weights: bool = False) -> dict[str, Any]:
    """Return the contents of a checkpoint as plain data, for people and for JSON.

    Args:
        tree: the checkpoint, or any other dict, of which parts in another form are left out.
        weights: list every weight with its shape and type.
    """
    state = _of(dict, tree, "state_dict")
    header = Header.of(tree)
    found: dict[str, Any] = {
        "written by": _writer(tree),
        "run": header.run if header is not None else None,
        "written at": _moment(header),
        "epoch": tree.get("epoch"),
        "step": tree.get("global_step"),
        "samples": _deep(tree, "lt", "position", "samples"),
        "world size": _deep(tree, "lt", "world_size"),
        "weights": _summary(state),
        "hyperparameters": _of(dict, tree, "hyper_parameters"),
        "hyperparameters by name only": _of(dict, tree, "hparams_by_name"),
        "datamodule's hyperparameters": _of(dict, tree, "datamodule_hyper_parameters"),
        "optimizers": [_optimizer(each) for each in _of(list, tree, "optimizer_states") if isinstance(each, dict)],
        "schedulers": len(_of(list, tree, "lr_schedulers")) or None,
        "callbacks": {str(name): _plain(state) for name, state in _of(dict, tree, "callbacks").items()},
        "left out": _of(list, tree, "left_out"),
        "saved without": {str(part): str(why) for part, why in _of(dict, tree, "gaps").items()},
        "resumes": _resumes(tree),
        "other keys": [key for key in tree if key not in _KNOWN],
    }
    if weights:
        found["each weight"] = {name: _shape(tensor) for name, tensor in tensors_of(state)}
    return {key: value for key, value in found.items() if value not in (None, [], {}, "")}


_KNOWN = frozenset(
    [
        HEADER_KEY,
        "epoch",
        "global_step",
        "pytorch-lightning_version",
        "lt_version",
        "lt",
        "state_dict",
        "hyper_parameters",
        "hparams_name",
        "hparams_type",
        "hparams_by_name",
        "hparams_arrays",
        "datamodule_hyper_parameters",
        "datamodule_hparams_name",
        "datamodule_hparams_by_name",
        "datamodule_hparams_arrays",
        "loops",
        "callbacks",
        "optimizer_states",
        "lr_schedulers",
        "left_out",
        "gaps",
    ]
)


def tensors_of(state: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor in a nest of dicts and lists with its path."""
    if isinstance(state, Tensor):
        yield prefix, state
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from tensors_of(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(state, list | tuple):
        for number, value in enumerate(state):
            yield from tensors_of(value, f"{prefix}.{number}")


def _writer(tree: Mapping[str, Any]) -> str:
    if "lt_version" in tree:
        return f"lt {tree['lt_version']}"
    if "pytorch-lightning_version" in tree:
        return f"Lightning {tree['pytorch-lightning_version']}"
    return "neither lt nor Lightning"


def _moment(header: Header | None) -> str | None:
    """Return when a file was written, in local time."""
    if header is None or header.time is None:
        return None
    return datetime.fromtimestamp(header.time / 1e9).astimezone().isoformat(" ", "seconds")


def _resumes(tree: Mapping[str, Any]) -> str:
    if "lt" in tree:
        return "exactly" if "optimizer_states" in tree else "exactly, with the strategy that wrote it"
    return "from the epoch's start" if "loops" in tree else "no: weights only"


def _summary(state: Mapping[str, Any]) -> str:
    tensors = [tensor for _, tensor in tensors_of(state)]
    if not tensors:
        return "none"
    numbers = sum(tensor.numel() for tensor in tensors)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    kinds = ", ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))
    return f"{len(tensors)} tensors, {numbers:,} numbers, {size / 1e6:.3f} MB, {kinds}"


def _optimizer(state: Mapping[str, Any]) -> str:
    groups = state.get("param_groups", ())
    rates = ", ".join(f"{group['lr']:g}" for group in groups if isinstance(group.get("lr"), int | float))
    return f"{len(state.get('state', ()))} parameters in {len(groups)} groups, learning rate {rates or 'unknown'}"


def _shape(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _of(kind: type[_Kind], tree: Mapping[str, Any], key: str) -> _Kind:
    """Return the value of ``key``; an empty one where it is of another type."""
    value = tree.get(key)
    return value if isinstance(value, kind) else kind()


def _deep(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _plain(value: Any) -> Any:
    """Return a value with small tensors as numbers and large ones as their shape, long texts shortened."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, Tensor):
        return value.item() if value.numel() == 1 else f"tensor {_shape(value)}"
    text = repr(value)
    return value if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
