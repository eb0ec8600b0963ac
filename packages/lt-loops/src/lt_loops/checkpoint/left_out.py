"""Weights that a checkpoint leaves out on purpose, by ``trainable_only=True`` and ``exclude=``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from lt_core.files.partial_save import check_patterns, checksum


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
    summed = None if tensor is None else checksum(tensor)
    return {"shape": list(value.shape), "dtype": str(value.dtype), "crc32": summed}
