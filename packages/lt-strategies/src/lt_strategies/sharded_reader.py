"""Reads the folder of a sharded checkpoint as one tree in one process: for tools such as ``lt ckpt``."""

from __future__ import annotations

import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

from lt_core.checkpoint import CheckpointIO
from lt_strategies.sharded_checkpoint import consolidate, is_one, verify

__all__ = ["ShardedReader"]


class ShardedReader(CheckpointIO):
    """Reads folders that a sharded strategy wrote, and files as usual; writes files.

    The tree has the whole weights and everything but the optimizers' states, which only the strategy itself can load.
    """

    def load_checkpoint(
        self,
        path: str | PathLike[str],
        map_location: Any = None,
        weights_only: bool | None = None,
        *,
        trusted: bool = False,
        mmap: bool = False,
        verify: bool = True,
    ) -> dict[str, Any]:
        if not is_one(path):
            return super().load_checkpoint(path, map_location, weights_only, trusted=trusted, mmap=mmap, verify=verify)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "whole.ckpt"
            consolidate(path, file)
            return super().load_checkpoint(file, map_location, verify=verify)

    def exists(self, path: str | PathLike[str]) -> bool:
        """Return whether there is a checkpoint at ``path``, a folder or a file."""
        return is_one(path) or super().exists(path)

    def verify(self, path: str | PathLike[str]) -> None:
        """Compare all files of a folder with its manifest."""
        if is_one(path):
            verify(CheckpointIO(), path)
        else:
            super().verify(path)
