"""Reading the folder of a sharded checkpoint: its index without running code, each file once, by its checksum."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as load_shards

from lt_checkpoint._archive import crc32
from lt_checkpoint._atomic_folder import REST_FILE, StrPath, standing
from lt_checkpoint._host_copy import Tree
from lt_checkpoint._pickle_calls import DTYPE_BYTES
from lt_core.checkpoint import CheckpointIO, Stored
from lt_core.errors import CheckpointError


def whole(path: StrPath, io: CheckpointIO, *, trusted: bool, verify: bool) -> Tree:
    """Return the tree in a folder, each tensor whole."""
    folder = standing(path)
    check_index(folder)
    tree = io.load_checkpoint(folder / REST_FILE, map_location="cpu", trusted=trusted)
    manifest = tree.pop("files", {}) if verify else {}
    reader = _ReadOnce(folder)
    found: Tree = {
        name: torch.empty(kind.size, dtype=kind.properties.dtype)
        if isinstance(kind, metadata.TensorStorageMetadata)
        else None
        for name, kind in reader.read_metadata().state_dict_metadata.items()
    }
    planner = _Plain(flatten_state_dict=False, flatten_sharded_tensors=False)
    failed: CheckpointException | None = None
    try:
        with warnings.catch_warnings():  # torch says even where no_dist is given that there is no process group
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            load_shards(found, storage_reader=reader, planner=planner, no_dist=True)
    except CheckpointException as error:
        failed = error
    if bad := damaged(folder, manifest, read=reader.sums):
        raise broken(path, bad) from failed
    if failed is not None:
        raise CheckpointError(
            f"{path} could not be read: {cause(failed)}. Take an older one.", code="LT771"
        ) from failed
    tree["state_dict"] = {name: found[f"state_dict.{name}"] for name in tree.pop("names")}
    for number, state in enumerate(tree.get("optimizer_states", [])):
        state["state"] = {
            int(index): {
                name: found[f"optimizers.{number}.{index}.{name}"] if isinstance(kind, str) else kind
                for name, kind in kinds.items()
            }
            for index, kinds in state.pop("kinds").items()
        }
    return tree


class Folder(Stored):
    """Tensors in a folder, None by name; ``read`` reads them."""

    def __init__(self, read: Callable[[Mapping[str, Tensor]], Tree], names: Iterable[str] = ()) -> None:
        super().__init__(dict.fromkeys(names))
        self.read = read  # type: ignore[method-assign, assignment]


def read_module(folder: Path, like: Mapping[str, Tensor]) -> Tree:
    own = dict(like)
    _read({"state_dict": own}, folder)
    return own


def read_optimizer(folder: Path, number: int, kinds: dict[str, Tree], like: Mapping[str, Tensor]) -> Tree:
    """Return the states of optimizer ``number``; text in ``kinds`` stands for a tensor sharded as its parameter."""
    sharded = {
        index: {name: torch.zeros_like(like[index]) for name, kind in names.items() if isinstance(kind, str)}
        for index, names in kinds.items()
        if index in like
    }
    if any(isinstance(kind, str) for names in kinds.values() for kind in names.values()):  # then all ranks do
        _read({"optimizers": {str(number): sharded}}, folder)
    return {index: {**kinds[index], **found} for index, found in sharded.items()}


class _Plain(DefaultLoadPlanner):
    """Reads values that are no tensors without running their code."""

    def load_bytes(self, read_item: Any, value: Any) -> None:
        name = read_item.dest_index.fqn
        self.original_state_dict[name] = torch.load(value, weights_only=True)


class _ReadOnce(FileSystemReader):
    """Reads each file of a folder from its start to its end, and sums its bytes.

    Attributes:
        sums: checksum of each file's bytes read so far.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sums: dict[str, dict[str, int]] = {}

    def read_data(self, plan: Any, planner: Any) -> Any:
        def place(item: Any) -> tuple[str, int]:
            info = self.storage_data[item.storage_index]
            return info.relative_path, info.offset

        return super().read_data(replace(plan, items=sorted(plan.items, key=place)), planner)

    def _slice_file(self, file: Any, sinfo: Any) -> IO[bytes]:
        file.seek(sinfo.offset)
        part = file.read(sinfo.length)
        read = self.sums.setdefault(sinfo.relative_path, {"bytes": 0, "crc32": 0})
        if read["bytes"] == sinfo.offset:  # else the file is summed by itself in the end
            read["bytes"], read["crc32"] = sinfo.offset + len(part), crc32(part, read["crc32"])
        return BytesIO(part)


def cause(error: CheckpointException) -> BaseException:
    """Return the error of the first rank that failed."""
    return next(iter(error.failures.values()))[0]


def _read(tensors: Tree, folder: Path) -> None:
    """Fill tensors in place from a folder."""
    check_index(folder)
    load_shards(tensors, checkpoint_id=folder)


def summed(file: Path) -> dict[str, int]:
    """Return size and CRC-32 of a file."""
    crc = size = 0
    with file.open("rb") as stream:
        while part := stream.read(1 << 24):
            crc, size = crc32(part, crc), size + len(part)
    return {"bytes": size, "crc32": crc}


def damaged(
    folder: Path,
    files: Mapping[str, dict[str, int]],
    share: slice = slice(None),
    read: Mapping[str, dict[str, int]] | None = None,
) -> list[str]:
    """Return the files that are not as the manifest says, among a share of them.

    Args:
        folder: where they are.
        files: of the manifest.
        share: which of them, by name, are looked at.
        read: sums that are known already.
    """

    def is_intact(file: Path, written: dict[str, int]) -> bool:
        try:
            same = (read or {}).get(file.name) == written and file.stat().st_size == written["bytes"]
            return same or summed(file) == written
        except OSError:
            return False

    return [name for name in sorted(files)[share] if not is_intact(folder / Path(name).name, files[name])]


def broken(path: StrPath, names: list[str]) -> CheckpointError:
    shown = ", ".join(names[:4]) + ("..." if len(names) > 4 else "")
    return CheckpointError(
        f"{path} is damaged: {shown} missing or not as written. Resume from an older checkpoint, or ckpt_path='last'.",
        code="LT746",
    )


class _PlainUnpickler(pickle.Unpickler):
    """Reads torch's index of a folder, which is a pickle: only the classes that describe tensors may be in it."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.removesuffix("._local")  # as Python 3.13 writes pathlib's classes
        described = module == metadata.__name__ and isinstance(vars(metadata).get(name), type)
        if not described and (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name} does not describe a tensor")
        return super().find_class(module, name)


_PLAIN = {
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.distributed.checkpoint.filesystem", "_StoragePrefix"),
    ("collections", "OrderedDict"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    *(("torch", name) for name in DTYPE_BYTES),
}


def check_index(folder: Path) -> None:
    """Raise where reading torch's index of a folder would run code that is none of torch's own.

    Raises:
        CheckpointError: with the folder and the name that it would have called.
    """
    try:
        with (folder / ".metadata").open("rb") as file:
            _PlainUnpickler(file).load()
    except Exception as error:  # whatever senseless contents make of pickle's reader
        raise CheckpointError(f"{folder}: its index cannot be trusted or read: {error}.", code="LT745") from None
