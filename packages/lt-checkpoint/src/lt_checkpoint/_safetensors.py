"""Weights in the format of safetensors: a checkpoint's ``state_dict``, and the rest as far as JSON holds it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from lt_checkpoint._host_copy import Tree
from lt_core.errors import CheckpointError, MissingCheckpointError, near_files, warn
from lt_core.files.checkpoint_header import Header
from lt_core.plugins import install_hint

_OF_TRAINING = ("optimizer_states", "lr_schedulers", "callbacks", "loops", "lt", "gaps", "native_amp_scaling_state")
"""Keys that only a resume needs."""

_OURS = {"written_by": "lt-checkpoint"}
"""Marks a file whose metadata is JSON of ours."""

_MOST_BYTES = 100 << 20
"""The longest header that safetensors reads."""


def as_bytes(tree: Mapping[str, Any], path: Any) -> bytes:
    """Return the weights of ``tree``, whose tensors are on the CPU, as a file of safetensors.

    Names that share one tensor are written once, as ``safetensors.torch.save_model`` does: under the first of them in
    the alphabet, the others in the metadata. Everything that is not training state and that JSON can hold goes there
    too.

    Raises:
        CheckpointError: for a value that is no dense tensor, naming its key; if safetensors is not installed.
    """
    save = _library(path).save
    weights, metadata = _unshared(tree.get("state_dict", tree), path)
    if "state_dict" in tree:
        metadata |= {**_described(tree, path), **_OURS}
    return bytes(save(weights, {"format": "pt", **metadata}))


def _unshared(state: Mapping[str, Any], path: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors that each have memory of their own, and under which name each other one is found."""
    weights: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    kept: dict[Any, str] = {}
    used: set[int] = set()
    for name in sorted(state):
        tensor = state[name]
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
            what = f"a tensor of layout {tensor.layout}" if isinstance(tensor, Tensor) else f"a {type(tensor).__name__}"
            raise CheckpointError(
                f"{path} was not written: safetensors holds dense tensors, and state_dict[{name!r}] is {what}. Save "
                "a .ckpt, which holds it.",
                code="LT675",
            )
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and place in kept:
            aliases[name] = kept[place]
            continue
        kept[place] = name
        dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
        memory = dense.untyped_storage()
        if memory.data_ptr() in used or memory.nbytes() != dense.numel() * dense.element_size():
            dense = dense.clone()
        used.add(memory.data_ptr())
        weights[name] = dense
    return weights, aliases


def _described(tree: Mapping[str, Any], path: Any) -> dict[str, str]:
    """Return everything but weights and training state as text; warn of hyperparameters that do not fit."""
    described: dict[str, str] = {}
    lost: list[str] = []
    header = Header.of(tree)
    if header is not None and header.time is not None:
        tree = {**tree, **header._replace(weights_only=True).entry()}
    for key, value in tree.items():
        if key == "state_dict" or key in _OF_TRAINING:
            continue
        try:
            if isinstance(value, dict):
                lost += [f"{key}[{name!r}]" for name, item in value.items() if not _is_json({name: item})]
                value = {name: item for name, item in value.items() if _is_json({name: item})}
            described[key] = json.dumps(_marked(value))
        except TypeError:
            lost.append(key)
    if lost:
        warn(
            f"{path} was written without {', '.join(lost)}: the metadata of safetensors is text, which cannot hold "
            "them. load_from_checkpoint takes them as arguments; a .ckpt holds them.",
            code="LT676",
        )
    return described


def _is_json(value: Any) -> bool:
    try:
        return _marked(value) is not None
    except TypeError:
        return False


def _marked(value: Any) -> Any:
    """Return ``value`` with its tuples as dicts, so that they come back as tuples.

    Raises:
        TypeError: for a value that JSON does not hold.
    """
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _marked(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_marked(item) for item in value]
        return {"__tuple__": items} if isinstance(value, tuple) else items
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(type(value))


def _unmarked(value: Tree) -> Any:
    return tuple(value["__tuple__"]) if list(value) == ["__tuple__"] else value


def read(source: Path | IO[bytes], shown: str, map_location: Any = None) -> Tree:
    """Return a file of safetensors, lt's or anybody's, as the tree of a checkpoint; a device gets the tensors.

    Raises:
        CheckpointError: for a file that is not there or damaged; where safetensors is not installed.
    """
    library = _library(shown)
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            metadata = _metadata(partial(part_of, file))
            file.seek(0)
            weights = library.load_file(source) if isinstance(source, Path) else library.load(file.read())
        described = _undescribed(metadata)
    except FileNotFoundError as error:
        raise MissingCheckpointError(f"{shown} is not there.{near_files(Path(shown))}", code="LT656") from error
    except OSError as error:
        raise CheckpointError(f"{shown} could not be read: {error.strerror or error}.", code="LT656") from error
    except Exception as error:  # SafetensorError, or JSON that is none, or nested without end
        raise CheckpointError(
            f"{shown} is damaged, or no file of safetensors: {error}. Take an older checkpoint.", code="LT657"
        ) from error
    state = dict(weights)
    for name, other in metadata.items():
        if name not in state and other in weights:
            state[name] = weights[other]
    if not isinstance(map_location, dict | None) and not callable(map_location):
        moved = {id(tensor): tensor.to(map_location) for tensor in state.values()}
        state = {name: moved[id(tensor)] for name, tensor in state.items()}
    return {"epoch": 0, "global_step": 0, **described, "state_dict": state}


def read_header(read: Callable[[int, int], bytes]) -> Header | None:
    """Return the header in a file's metadata; None if there is none, or it cannot be understood.

    Args:
        read: returns the file's bytes between two offsets, fewer at its end.
    """
    try:
        return Header.of(_undescribed(_metadata(read)))
    except Exception:  # any damage
        return None


def _metadata(read: Callable[[int, int], bytes]) -> dict[str, str]:
    (length,) = struct.unpack("<Q", read(0, 8))
    if length > _MOST_BYTES:
        raise ValueError(f"its header would have {length} bytes")
    found = json.loads(read(8, 8 + length)).get("__metadata__", {})
    return {str(name): str(text) for name, text in found.items()}


def _undescribed(metadata: Mapping[str, str]) -> Tree:
    if not _OURS.items() <= metadata.items():  # another program's: its texts mean something else
        return {}
    found: Tree = {}
    for name, text in metadata.items():
        try:
            found[name] = json.loads(text, object_hook=_unmarked)
        except ValueError:  # "format", and where shared weights are found
            continue
    return found


def part_of(file: IO[bytes], start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _library(path: Any) -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise CheckpointError(
            f"{path}: this format needs the package safetensors: {install_hint('lt-checkpoint[safetensors]')}.",
            code="LT677",
        ) from None
    return safetensors.torch
