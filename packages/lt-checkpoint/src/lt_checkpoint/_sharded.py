"""Sharded checkpoints: a folder to which every rank writes its part by torch's DCP, complete or not there.

Beside DCP's files lies ``rest.ckpt``: all but the tensors of module and optimizers, and the manifest of the folder's
files with their checksums, which DCP itself does not keep.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.distributed.tensor import DTensor

from lt_checkpoint._atomic_folder import REST_FILE, StrPath, draft_of, held, put_in_place, remove_folder, standing
from lt_checkpoint._background import AsyncCheckpointIO
from lt_checkpoint._host_copy import Tree
from lt_checkpoint._shard_reading import (
    Folder,
    broken,
    cause,
    check_index,
    damaged,
    read_module,
    read_optimizer,
    summed,
    whole,
)
from lt_checkpoint._torch_files import check_ending, is_safetensors
from lt_checkpoint.wrapping import Wrapping
from lt_core.checkpoint import CheckpointIO, SupportsShards
from lt_core.errors import CheckpointError
from lt_core.files.atomic_file import make_folder, sync_directory
from lt_core.ranks import Ranks

__all__ = ["ShardedCheckpointIO", "is_one"]


class ShardedCheckpointIO(Wrapping, SupportsShards):
    """Writes and reads folders to which every rank contributes, and files by another ``CheckpointIO``.

    Where that writes in the background (:class:`~lt_checkpoint.AsyncCheckpointIO`), so do all ranks here, by torch's
    ``async_save``: training waits for a copy of each rank's part only.

    Read by one process, a folder is the tree that one file would hold: whole weights, whole states of optimizers.

    Args:
        checkpoint_io: writes and reads files; by default a :class:`~lt_checkpoint.TorchCheckpointIO`.
    """

    def save_shards(self, tree: dict[str, Any], path: StrPath, ranks: Ranks) -> None:
        """Write a checkpoint to which every rank contributes; the folder appears only when it is complete.

        In the background where files are: this then returns when the ranks' parts are copied, and waits for the save
        before.

        Raises:
            CheckpointError: on every rank, when the file system refuses one of them; an older folder at ``path`` stays.
        """
        check_ending(path)
        if is_safetensors(path):
            raise CheckpointError(
                f"{path} was not written: here every rank writes its part, into a folder. Save a .ckpt; the weights "
                "alone, whole, on one process: lt ckpt export last.ckpt weights.safetensors.",
                code="LT678",
            )
        target, draft = Path(path), draft_of(Path(path))
        tensors, rest = _parted(tree)
        _add_of_others(rest, ranks)
        background = self._background
        fits = background is not None and background.begin(path, _own_bytes(tensors))
        group = ranks.background_group() if background is not None and all(ranks.gather_objects(fits)) else None
        with ExitStack() as lock:
            with _shared_error(ranks, target):
                if ranks.rank == 0:
                    shutil.rmtree(draft, ignore_errors=True)
                    make_folder(draft.parent)
                    draft.mkdir()
                    lock.enter_context(held(draft))
                    if background is not None and group is not None:
                        rest = background.copied(rest)
            if background is None or group is None:
                _complete(partial(save_shards, tensors, checkpoint_id=str(draft)), ranks, self.io, rest, target, lock)
                return
            written: Any = async_save(tensors, checkpoint_id=str(draft), process_group=group)
            there = _Beside(ranks, group)
            finish = partial(_complete, written.result, there, background.io, rest, target, lock.pop_all())
            background.later(path, finish)

    def load_shards(self, path: StrPath, ranks: Ranks, *, trusted: bool = False) -> dict[str, Any]:
        """Return the tree at ``path``; of a folder the tensors stay there until the module is known.

        The ranks share the work of comparing the files' checksums, and raise the same error. So the bytes are read
        twice, by two ranks perhaps: a damaged folder is refused before anything changes, here; tensors are read when
        the module is there and then the optimizers, in place, and torch's reader reads of a file only the parts that
        this rank needs (of other ranks' files, where their number changed), which no checksum of a file can be compared
        with.
        """
        self.settle()
        if not is_one(path):
            return self.io.load_checkpoint(path, map_location="cpu", trusted=trusted)
        folder = standing(path)
        tree = self.io.load_checkpoint(folder / REST_FILE, map_location="cpu", trusted=trusted)
        found = [damaged(folder, tree.pop("files", {}), slice(ranks.rank, None, ranks.world_size))]
        if ranks.world_size > 1:  # one process reads outside of a run too, where it can't talk
            found = ranks.gather_objects(found[0])
        if bad := sorted({name for names in found for name in names}):
            raise broken(path, bad)
        tree["state_dict"] = Folder(partial(read_module, folder), tree.pop("names"))
        if "optimizer_states" in tree:  # not in one of weights only
            for number, state in enumerate(tree["optimizer_states"]):
                state["state"] = Folder(partial(read_optimizer, folder, number, state.pop("kinds")))
        return tree

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
        """Return the tree at ``path``: of a folder everything that is in it, each tensor whole, each file read once."""
        self.settle()
        if not isinstance(path, (str, PathLike)) or not is_one(path):
            return super().load_checkpoint(path, map_location, weights_only, trusted=trusted, mmap=mmap, verify=verify)
        tree = whole(path, self.io, trusted=trusted, verify=verify)
        if map_location is None or str(map_location) == "cpu":
            return tree
        with tempfile.TemporaryDirectory() as folder:  # torch.load knows all that a map_location may be
            torch.save(tree, file := Path(folder) / "whole.ckpt")
            return self.io.load_checkpoint(file, map_location, trusted=trusted, verify=False)

    def remove_checkpoint(self, path: StrPath) -> None:
        if self._background is not None:
            self._background.afterwards(_remove, self._background.io, path)
        else:
            _remove(self.io, path)

    def exists(self, path: StrPath) -> bool:
        """Return whether there is a checkpoint at ``path``, a folder or a file."""
        self.settle()
        return is_one(path) or self.io.exists(path)

    def verify(self, path: StrPath) -> None:
        """Return if it is complete: every file that a folder's manifest names is there, with its size and checksum.

        Raises:
            CheckpointError: for a missing or damaged file, by name.
        """
        self.settle()
        if not is_one(path):
            self.io.verify(path)
            return
        folder = standing(path)
        check_index(folder)
        self.io.verify(folder / REST_FILE)
        files = self.io.load_checkpoint(folder / REST_FILE, map_location="cpu").get("files", {})
        if bad := damaged(folder, files):
            raise broken(path, bad)

    def settle(self) -> None:
        if self._background is not None:
            self._background.settle()

    @property
    def _background(self) -> AsyncCheckpointIO | None:
        return self.io if isinstance(self.io, AsyncCheckpointIO) else None


class _Beside(Ranks):
    """The ranks, as threads beside their runs see each other.

    Args:
        ranks: of the run.
        group: whom these threads talk by.
    """

    def __init__(self, ranks: Ranks, group: Any) -> None:
        self.environment, self._lt_group = ranks.environment, group

    @property
    def world_size(self) -> int:
        return dist.get_world_size(self._lt_group)

    def gather_objects(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.world_size
        dist.all_gather_object(found, value, group=self._lt_group)
        return found


def is_one(path: StrPath) -> bool:
    """Return whether a path is a sharded checkpoint's folder; also one that was killed while it was replaced."""
    return (standing(path) / REST_FILE).exists()


def _parted(tree: Tree) -> tuple[Tree, Tree]:
    """Return the tensors, which go into shards, and the rest."""
    optimizers = tree.get("optimizer_states", [])
    tensors = {
        "state_dict": tree["state_dict"],
        "optimizers": {
            str(number): {
                str(index): {name: value for name, value in entry.items() if isinstance(value, DTensor)}
                for index, entry in state["state"].items()
            }
            for number, state in enumerate(optimizers)
        },
    }
    rest = {key: value for key, value in tree.items() if key not in ("state_dict", "optimizer_states")}
    if "optimizer_states" in tree:
        rest["optimizer_states"] = [
            {"param_groups": state["param_groups"], "kinds": _kinds(state["state"])} for state in optimizers
        ]
    rest["names"] = list(tree["state_dict"])
    return tensors, rest


def _add_of_others(rest: Tree, ranks: Ranks) -> None:
    """Add the other ranks' values that are no tensors, if they hold other layers; called on every rank."""
    states = rest.get("optimizer_states", [])
    mine = rest["names"], [state["kinds"] for state in states]
    layers = [mine[0], [list(kinds) for kinds in mine[1]]]
    digests = ranks.gather_objects(zlib.crc32(repr(layers).encode()))
    if len(set(digests)) == 1:
        return
    everyone = ranks.gather_objects(mine if digests.index(digests[ranks.rank]) == ranks.rank else None)
    for names, kinds in filter(None, everyone):
        rest["names"] = list(dict.fromkeys((*rest["names"], *names)))
        for state, found in zip(states, kinds, strict=True):
            state["kinds"] = {**found, **state["kinds"]}


def _complete(
    write: Callable[[], object], ranks: Ranks, io: CheckpointIO, rest: Tree, target: Path, lock: ExitStack
) -> None:
    """Have the shards written, add the rest with the manifest, and give the folder its name; called on every rank.

    Args:
        write: writes this rank's shards into the draft, or returns when that is done.
        ranks: who write.
        io: writes the rest.
        rest: all but the tensors.
        target: the folder's name.
        lock: on the draft.
    """
    draft = draft_of(target)
    with lock:
        try:
            with _shared_error(ranks, target):
                write()
            facts: dict[str, dict[str, int]] = {}
            with _shared_error(ranks, target):
                for file in [*draft.glob(f"__{ranks.rank}_*"), *([draft / ".metadata"] if ranks.rank == 0 else [])]:
                    with file.open("rb+") as stream:
                        os.fsync(stream.fileno())
                    facts[file.name] = summed(file)
            written = ranks.gather_objects(facts)
            with _shared_error(ranks, target):
                if ranks.rank == 0:
                    rest["files"] = {name: facts for files in written for name, facts in files.items()}
                    io.save_checkpoint(rest, draft / REST_FILE)
                    io.wait()  # it may write in the background
                    sync_directory(draft)
                    put_in_place(draft, target)
                    sync_directory(target.parent)
        except (CheckpointError, OSError):
            if ranks.rank == 0:  # the rest would fill the disk further
                shutil.rmtree(draft, ignore_errors=True)
            raise


def _remove(io: CheckpointIO, path: StrPath) -> None:
    if is_one(path):
        remove_folder(Path(path))
    else:
        io.remove_checkpoint(path)


@contextmanager
def _shared_error(ranks: Ranks, target: Path) -> Iterator[None]:
    """Raise an error of the file system on one rank on all: none may wait for it, or take the checkpoint for saved."""
    mine: Exception | None = None
    try:
        yield
    except (CheckpointError, OSError) as error:
        mine = error
    except CheckpointException as error:  # of torch, by which every rank has heard of it
        mine = CheckpointError(f"{target} could not be written: {cause(error)}", code="LT747")
    failures = [*filter(None, ranks.gather_objects("" if mine is None else str(mine)))]
    if mine is not None:
        raise mine
    if failures:
        raise CheckpointError(f"{target} could not be written: {failures[0]}", code="LT747")


def _own_bytes(tree: Any) -> int:
    """Return the bytes that this rank holds of all tensors in nested dicts."""
    if isinstance(tree, Mapping):
        return sum(map(_own_bytes, tree.values()))
    part = tree.to_local() if isinstance(tree, DTensor) else tree
    return part.numel() * part.element_size() if isinstance(part, Tensor) else 0


def _kinds(entries: dict[Any, Tree]) -> dict[str, Tree]:
    """Return for each state its layout, for a rank to allocate its part; values that are no tensors as they are."""

    def kind(value: Any) -> Any:
        if isinstance(value, DTensor):
            return "like its parameter"
        return value.detach().cpu() if isinstance(value, Tensor) else value

    return {str(index): {name: kind(value) for name, value in entry.items()} for index, entry in entries.items()}
