"""Checkpoints that hold any Python object, as Lightning's do: for packages that put objects of theirs into them.

Reading such a file can run code, so nothing here is used unless ``python -m lt.compat --pickle`` asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import IO, Any

import torch

from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError
from lt_core.files.atomic_file import write_atomically

__all__ = ["PickledCheckpointIO", "pickles", "use_pickles"]

_VARIABLE = "LT_COMPAT_PICKLE"


def use_pickles() -> None:
    """Have checkpoints of this process, and of its child processes, hold any object."""
    os.environ[_VARIABLE] = "1"


def pickles() -> bool:
    """Return whether checkpoints may hold any object."""
    return os.environ.get(_VARIABLE) == "1"


class PickledCheckpointIO(CheckpointIO):
    """Writes whatever it is given by ``torch.save``, and reads all files as trusted."""

    keeps_objects = True

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | PathLike[str], storage_options: Any = None
    ) -> None:
        try:
            write_atomically(path, partial(torch.save, dict(checkpoint)))
        except OSError as error:
            raise CheckpointError(f"{path} could not be written: {error.strerror or error}.", code="LT640") from error

    def load_checkpoint(
        self,
        path: str | PathLike[str] | IO[bytes],
        map_location: Any = None,
        weights_only: bool | None = None,
        *,
        trusted: bool = False,
        mmap: bool = False,
        verify: bool = True,
    ) -> dict[str, Any]:
        return super().load_checkpoint(path, map_location, trusted=True, mmap=mmap, verify=verify)

    def verify(self, path: str | PathLike[str]) -> None:
        """Compare the checksums; that it holds objects is no fault here."""
        self.load_checkpoint(path, "cpu")
