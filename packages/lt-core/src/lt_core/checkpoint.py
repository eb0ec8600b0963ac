"""What writes and reads checkpoint files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from lt_core.plain_data import plain_tree

__all__ = ["CheckpointIO"]


class CheckpointIO:
    """Writes and reads one file for each checkpoint."""

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | PathLike[str], storage_options: Any = None
    ) -> None:
        """Write ``checkpoint``, plain data and tensors, to ``path``."""
        tree = plain_tree(dict(checkpoint))
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.tmp")
        torch.save(tree, beside)
        os.replace(beside, target)  # noqa: PTH105

    def load_checkpoint(
        self,
        path: str | PathLike[str],
        map_location: Any = None,
        *,
        trusted: bool = False,
        mmap: bool = False,
        verify: bool = True,
    ) -> dict[str, Any]:
        """Read the checkpoint at ``path``."""
        tree: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=not trusted, mmap=mmap)
        return tree

    def remove_checkpoint(self, path: str | PathLike[str]) -> None:
        """Delete the checkpoint at ``path``."""
        Path(path).unlink(missing_ok=True)

    def exists(self, path: str | PathLike[str]) -> bool:
        """Return whether there is a checkpoint at ``path``."""
        return Path(path).is_file()

    def verify(self, path: str | PathLike[str]) -> None:
        """Raise CheckpointError unless the checkpoint at ``path`` is complete and undamaged."""

    def wait(self) -> None:
        """Return when everything given to :meth:`save_checkpoint` is on disk."""

    def teardown(self) -> None:
        """Wait, and give back threads and buffers."""
