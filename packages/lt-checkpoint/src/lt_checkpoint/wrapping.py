"""A ``CheckpointIO`` that delegates to another one; subclasses override the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from lt_checkpoint._atomic_folder import StrPath
from lt_checkpoint._torch_files import TorchCheckpointIO
from lt_core.checkpoint import CheckpointIO
from lt_core.files.checkpoint_header import Header

__all__ = ["Wrapping"]


class Wrapping(CheckpointIO):
    """Hands on whatever it is asked for.

    Args:
        checkpoint_io: writes and reads; by default a :class:`~lt_checkpoint.TorchCheckpointIO`.
    """

    def __init__(self, checkpoint_io: CheckpointIO | None = None) -> None:
        self.io = checkpoint_io or TorchCheckpointIO()

    def settle(self) -> None:
        """Called before anything is read."""

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: StrPath, storage_options: Any = None) -> None:
        self.io.save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(
        self,
        path: StrPath | IO[bytes],
        map_location: Any = None,
        weights_only: bool | None = None,
        *,
        trusted: bool = False,
        mmap: bool = False,
        verify: bool = True,
    ) -> dict[str, Any]:
        self.settle()
        trusted |= weights_only is False
        return self.io.load_checkpoint(path, map_location, trusted=trusted, mmap=mmap, verify=verify)

    def remove_checkpoint(self, path: StrPath) -> None:
        self.io.remove_checkpoint(path)

    def point_last(self, target: StrPath, link: StrPath) -> None:
        self.io.point_last(target, link)

    def add_name(self, target: StrPath, name: StrPath) -> None:
        self.io.add_name(target, name)

    def exists(self, path: StrPath) -> bool:
        self.settle()
        return self.io.exists(path)

    def times(self, folder: StrPath) -> dict[str, int]:
        self.settle()
        return self.io.times(folder)

    def header(self, path: StrPath) -> Header | None:
        self.settle()
        return self.io.header(path)

    def clean(self, folder: StrPath) -> None:
        self.io.clean(folder)

    def verify(self, path: StrPath) -> None:
        self.settle()
        self.io.verify(path)

    def wait(self) -> None:
        self.io.wait()

    def is_writing(self) -> bool:
        return self.io.is_writing()

    def failures(self) -> dict[str, Exception]:
        return self.io.failures()

    def teardown(self) -> None:
        self.io.teardown()
