"""Checkpoints that leave weights out on purpose: which ones, and whether a module has the same ones when it loads.

The file's key ``left_out`` names every weight that is missing with its shape, dtype and checksum, so that a load can
say when the module's own values are not those that the run trained with.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any

from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from lt_core.errors import CheckpointError, ConfigError, did_you_mean, warn

__all__ = ["check_left_out", "check_patterns", "checksum"]

_checksums: Any = WeakTensorKeyDictionary()  # frozen weights are summed once: tensor -> (its version, checksum)


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
                f"those of file names: 'backbone.*'.{did_you_mean(pattern, keys)}",
                code="LT614",
            )


def check_left_out(
    module: nn.Module, state: Mapping[str, Any], left_out: Collection[str], path: str | PathLike[str]
) -> None:
    """Compare the weights that a file leaves out with those of the module that loads it.

    Raises:
        CheckpointError: for another shape.
    """
    if not isinstance(left_out, Mapping):
        return  # names only: nothing to compare with
    own = module.state_dict(keep_vars=True)
    described = {key: saved for key, saved in left_out.items() if isinstance(saved, Mapping) and key not in state}
    pairs = [(key, saved, value) for key, saved in described.items() if isinstance(value := own.get(key), Tensor)]
    wrong = [
        f"{key}: {saved['shape']} in the run that saved, {list(value.shape)} in the module"
        for key, saved, value in pairs
        if isinstance(saved.get("shape"), list) and saved["shape"] != list(value.shape)
    ]
    if wrong:
        raise CheckpointError(
            f"{path} leaves out weights that have other shapes in {type(module).__qualname__}: {'; '.join(wrong)}. "
            "Make the module as it was made for that run.",
            code="LT615",
        )
    sums = {key: (saved.get("crc32"), checksum(value)) for key, saved, value in pairs}
    other = [key for key, (one, own) in sums.items() if None not in (one, own) and one != own]
    if other:
        shown = ", ".join(other[:5]) + (f" and {len(other) - 5} more" if len(other) > 5 else "")
        warn(
            f"{path} leaves out weights on purpose, and {type(module).__qualname__} holds other values than the run "
            f"that saved it: {shown}. Load them first (the same pretrained weights) for the same results.",
            code="LT616",
        )


def checksum(tensor: Tensor) -> int | None:
    """Return the CRC-32 of a tensor's bytes; None for one whose bytes are not all here."""
    if tensor.is_meta or hasattr(tensor, "to_local"):
        return None
    known = _checksums.get(tensor)
    if known is not None and known[0] == tensor._version:
        return int(known[1])
    flat = tensor.detach().cpu().contiguous()
    summed = zlib.crc32((ctypes.c_char * flat.nbytes).from_address(flat.data_ptr())) if flat.nbytes else 0
    _checksums[tensor] = (tensor._version, summed)
    return summed
