"""Checkpoints that leave weights out on purpose: which ones, and whether a module has the same ones when it loads.

The file's key ``left_out`` names every weight that is missing with its shape, dtype and checksum, so that a load can
say when the module's own values are not the ones that the run trained with.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import WeakTensorKeyDictionary

from lt_core.errors import CheckpointError, ConfigError, did_you_mean, warn

__all__ = ["check_left_out", "check_patterns", "leave_out"]

_checksums: Any = WeakTensorKeyDictionary()  # frozen weights are summed once: tensor -> (its version, checksum)


def leave_out(
    state: dict[str, Any], module: nn.Module, trainable_only: bool, exclude: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Take weights out of a state dict.

    Args:
        state: loses the keys.
        module: whose state it is.
        trainable_only: the parameters that do not require gradients go (buffers stay).
        exclude: weights whose names fit one of these patterns go.

    Returns:
        For each key that went its shape, dtype and CRC-32 (None where the tensor lies on several ranks).

    Raises:
        ConfigError: for a pattern that fits no weight.
    """
    own = module.state_dict(keep_vars=True)
    if state:  # of a sharded module one rank may hold it all
        check_patterns(exclude, module, state)
    gone = [key for key in state if _goes(key, own.get(key), trainable_only, exclude)]
    return {key: _described(state.pop(key), own.get(key)) for key in gone}


def _goes(key: str, tensor: Tensor | None, trainable_only: bool, exclude: tuple[str, ...]) -> bool:
    frozen = trainable_only and isinstance(tensor, nn.Parameter) and not tensor.requires_grad
    return frozen or any(fnmatchcase(key, pattern) for pattern in exclude)


def _described(value: Any, tensor: Tensor | None) -> dict[str, Any]:
    if not isinstance(value, Tensor):
        return {"shape": None, "dtype": None, "crc32": None}
    summed = None if tensor is None else _checksum(tensor)
    return {"shape": list(value.shape), "dtype": str(value.dtype), "crc32": summed}


def check_patterns(exclude: Iterable[str], module: nn.Module, keys: Collection[str]) -> None:
    """Check that every pattern fits one of ``keys``.

    Raises:
        ConfigError: naming some of the keys.
    """
    for pattern in exclude:
        if not any(fnmatchcase(key, pattern) for key in keys):
            shown = ", ".join([*keys][:6]) + ("..." if len(keys) > 6 else "")
            raise ConfigError(
                f"exclude={pattern!r} fits no weight of {type(module).__qualname__}, which has {shown}. Patterns are "
                f"patterns of file names: 'backbone.*'.{did_you_mean(pattern, keys)}",
                code="LT614",
            )


def check_left_out(
    module: nn.Module, state: Mapping[str, Any], left_out: Mapping[str, Mapping[str, Any]], path: str | PathLike[str]
) -> None:
    """Compare the weights that a file leaves out with the loading module's.

    Raises:
        CheckpointError: for another shape.
    """
    own = module.state_dict(keep_vars=True)
    wrong, other = [], []
    for key, saved in left_out.items():
        value = own.get(key)
        if key in state or not isinstance(value, Tensor):
            continue
        shape, crc32 = saved.get("shape"), saved.get("crc32")
        if isinstance(shape, list) and shape != list(value.shape):
            wrong.append(f"{key}: {shape} in the run that saved, {list(value.shape)} in the module")
        elif crc32 is not None and _checksum(value) not in (None, crc32):
            other.append(key)
    if wrong:
        raise CheckpointError(
            f"{path} leaves out weights that have other shapes in {type(module).__qualname__}: {'; '.join(wrong)}. "
            "Make the module as it was made for that run.",
            code="LT615",
        )
    if other:
        shown = ", ".join(other[:5]) + (f" and {len(other) - 5} more" if len(other) > 5 else "")
        warn(
            f"{path} leaves out weights on purpose, and {type(module).__qualname__} holds other values than the run "
            f"that saved it: {shown}. Load them first (the same pretrained weights) for the same results.",
            code="LT616",
        )


def _checksum(tensor: Tensor) -> int | None:
    """Return the CRC-32 of a tensor's bytes; None for one whose bytes are not all here."""
    if tensor.is_meta or hasattr(tensor, "to_local"):
        return None
    if is_traceable_wrapper_subclass(tensor):  # a quantized weight has no bytes of its own, and may have no weakref
        names, _ = tensor.__tensor_flatten__()
        return zlib.crc32(repr([_checksum(getattr(tensor, name)) for name in names]).encode())
    known = _checksums.get(tensor)
    if known is not None and known[0] == tensor._version:
        return int(known[1])
    flat = tensor.detach().cpu().contiguous()
    summed = zlib.crc32((ctypes.c_char * flat.nbytes).from_address(flat.data_ptr())) if flat.nbytes else 0
    _checksums[tensor] = (tensor._version, summed)
    return summed
