"""States of sharded modules: gathered into one file, or a folder to which every rank writes its part (torch's DCP)."""

from __future__ import annotations

import os
import pickle
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from lt_core.atomic_file import sync_directory
from lt_core.atomic_folder import draft_of, held, put_in_place, remove_folder, standing
from lt_core.checkpoint import CheckpointIO
from lt_core.checkpoint_header import REST_FILE, Header
from lt_core.errors import CheckpointError
from lt_core.strategy import Strategy

__all__ = ["Stored", "consolidate", "is_one", "load", "load_module", "load_optimizer", "remove", "save", "whole"]


class Stored(dict[str, Any]):
    """Tensors that are still in a folder, None by name: each rank reads its own part when it knows the module.

    Attributes:
        path: the folder.
        key: which optimizer's, by its number, or ``"state_dict"``.
    """

    path: str = ""
    key: str = ""

    @classmethod
    def at(cls, path: Path, key: str, names: Iterable[str] = ()) -> Stored:
        """Return a stand-in for what is stored below ``key``."""
        made = cls(dict.fromkeys(names))
        made.path, made.key = str(path), key
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Stored:
        return self


def whole(state: Any, *, keep: bool) -> Any:
    """Return ``state`` with every sharded tensor gathered, on the CPU; called on every rank.

    Args:
        state: any nesting of dicts.
        keep: whether this rank wants the result; the others get an empty dict.
    """
    found: dict[Any, Any] = {}
    for name, value in state.items():
        entry: Any = value
        if isinstance(value, dict):
            entry = whole(value, keep=keep)
        elif isinstance(value, DTensor):
            gathered = value.full_tensor()
            entry = gathered.cpu() if keep else None
        elif isinstance(value, Tensor):
            entry = value.detach().cpu()
        if keep:
            found[name] = entry
    return found


def load_module(module: nn.Module, state: dict[str, Any], strategy: Strategy, *, strict: bool) -> Any:
    """Load a full state (needed on rank 0 only), this rank's shards, or what a folder holds."""
    own = module.state_dict()
    if isinstance(state, Stored):
        _read({"state_dict": own}, state.path)
        return module.load_state_dict(own, strict=strict)
    kinds = strategy.gather_objects("none" if not state else "any")
    if "none" in kinds:
        state = strategy.broadcast(state if strategy.rank == 0 else None, 0)
    ready = {name: _like(value, own[name]) if name in own else value for name, value in state.items()}
    return module.load_state_dict(ready, strict=strict)


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load the state of an optimizer over sharded parameters, from whole tensors or from a folder."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    entries = state["state"]
    if isinstance(entries, Stored):
        entries = _read_entries(params, entries, state["kinds"])
    placed = {
        index: {name: _like(value, params[int(index)]) for name, value in entry.items()}
        for index, entry in entries.items()
    }
    optimizer.load_state_dict({"state": placed, "param_groups": state["param_groups"]})


def _like(value: Any, model: Tensor) -> Any:
    """Return a whole tensor sharded as ``model`` is, where it has its shape; all else as it is."""
    fits = isinstance(value, Tensor) and not isinstance(value, DTensor) and isinstance(model, DTensor)
    if not fits or value.shape != model.shape:
        return value
    assert isinstance(model, DTensor)
    return distribute_tensor(value.to(model.device), model.device_mesh, model.placements)


# ---- folders ---------------------------------------------------------------------------------------------------------


def is_one(path: str | PathLike[str]) -> bool:
    """Return whether a path is a sharded checkpoint's folder; also one that was killed while it was replaced."""
    return (standing(path) / REST_FILE).exists()


def save(strategy: Strategy, io: CheckpointIO, tree: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write a checkpoint to which every rank contributes; the folder appears only when it is complete.

    Raises:
        CheckpointError: on every rank, when the file system refuses one of them; what stood at ``path`` stays.
    """
    target = Path(path)
    draft = draft_of(target)
    with ExitStack() as lock:
        with _shared_error(strategy, target):
            if strategy.rank == 0:
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
                lock.enter_context(held(draft))
        _write(strategy, io, tree, draft, target)


def _write(strategy: Strategy, io: CheckpointIO, tree: dict[str, Any], draft: Path, target: Path) -> None:
    optimizers = tree.get("optimizer_states", [])
    tensors = {
        "state_dict": tree["state_dict"],
        "optimizers": {str(number): _shards(state["state"]) for number, state in enumerate(optimizers)},
    }
    save_shards(tensors, checkpoint_id=str(draft))
    rest = {key: value for key, value in tree.items() if key not in ("state_dict", "optimizer_states")}
    rest["optimizer_states"] = [
        {"param_groups": state["param_groups"], "kinds": _kinds(state["state"])} for state in optimizers
    ]
    rest["names"] = list(tree["state_dict"])
    facts: dict[str, dict[str, int]] = {}
    with _shared_error(strategy, target):
        for file in _own_files(draft, strategy.rank):
            _sync(file)
            facts[file.name] = _summed(file)
    written = strategy.gather_objects(facts)
    with _shared_error(strategy, target):
        if strategy.rank == 0:
            rest["files"] = {name: facts for files in written for name, facts in files.items()}
            io.save_checkpoint(rest, draft / REST_FILE)
            io.wait()  # it may write in the background
            sync_directory(draft)
            put_in_place(draft, target)
            sync_directory(target.parent)


@contextmanager
def _shared_error(strategy: Strategy, target: Path) -> Iterator[None]:
    """Have an error of the file system on one rank raised on all: none may wait for it, or think that it is saved."""
    mine: Exception | None = None
    try:
        yield
    except (CheckpointError, OSError) as error:
        mine = error
    told = [text for text in strategy.gather_objects("" if mine is None else str(mine)) if text]
    if mine is not None:
        raise mine
    if told:
        raise CheckpointError(f"{target} could not be written: {told[0]}", code="LT747")


def verify(io: CheckpointIO, path: str | PathLike[str]) -> None:
    """Return if a folder is complete: every file that its manifest names is there, with its size and checksum.

    Raises:
        CheckpointError: names what is missing or damaged.
    """
    folder = standing(path)
    _check_metadata(folder)
    io.verify(folder / REST_FILE)
    files = io.load_checkpoint(folder / REST_FILE, map_location="cpu").get("files", {})
    bad = _damaged(folder, files)
    if bad:
        raise _broken(path, bad)


def _own_files(folder: Path, rank: int) -> list[Path]:
    """Return what ``rank`` has written: its shards, and rank 0 the index too."""
    return [*sorted(folder.glob(f"__{rank}_*")), *([folder / ".metadata"] if rank == 0 else [])]


def _sync(file: Path) -> None:
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())


def _summed(file: Path) -> dict[str, int]:
    """Return size and CRC-32 of a file."""
    crc = size = 0
    with file.open("rb") as stream:
        while part := stream.read(1 << 24):
            crc, size = zlib.crc32(part, crc), size + len(part)
    return {"bytes": size, "crc32": crc}


def _damaged(folder: Path, files: dict[str, dict[str, int]], share: slice = slice(None)) -> list[str]:
    """Return the files that are not as the manifest says, among a share of them."""
    return [name for name in sorted(files)[share] if not _is_as_written(folder / Path(name).name, files[name])]


def _is_as_written(file: Path, facts: dict[str, int]) -> bool:
    try:
        return _summed(file) == facts
    except OSError:
        return False


def _broken(path: str | PathLike[str], names: list[str]) -> CheckpointError:
    shown = ", ".join(names[:4]) + ("..." if len(names) > 4 else "")
    return CheckpointError(
        f"{path} is damaged: {shown} missing or not as written. Resume from an older checkpoint, or ckpt_path='last'.",
        code="LT746",
    )


def load(strategy: Strategy, io: CheckpointIO, path: str | PathLike[str], *, trusted: bool = False) -> dict[str, Any]:
    """Return a folder's tree; tensors stay in the folder until the module is there (:class:`Stored`).

    The ranks share the work of comparing the files' checksums, and raise the same error.
    """
    folder = standing(path)
    tree = io.load_checkpoint(folder / REST_FILE, map_location="cpu", trusted=trusted)
    found = [_damaged(folder, tree.pop("files", {}), slice(strategy.rank, None, strategy.world_size))]
    if strategy.world_size > 1:
        found = strategy.gather_objects(found[0])
    if bad := sorted({name for names in found for name in names}):
        raise _broken(path, bad)
    optimizers = tree.pop("optimizer_states")
    tree["state_dict"] = Stored.at(folder, "state_dict", tree.pop("names"))
    tree["optimizer_states"] = [
        {**state, "state": Stored.at(folder, str(number))} for number, state in enumerate(optimizers)
    ]
    return tree


def remove(strategy: Strategy, path: str | PathLike[str]) -> None:
    """Delete a folder, or a link to one."""
    if strategy.rank == 0:
        remove_folder(Path(path))


def consolidate(path: str | PathLike[str], target: str | PathLike[str]) -> None:
    """Turn a sharded checkpoint's folder into one file of module weights, in this process.

    The file holds ``{"state_dict": ...}``; it loads by ``load_from_checkpoint`` and ``torch.load(weights_only=True)``.

    Raises:
        CheckpointError: when ``path`` is no such folder.
    """
    if not is_one(path):
        raise CheckpointError(f"{path} is not a sharded checkpoint: expected a folder with {REST_FILE}.", code="LT744")
    scratch = Path(target).with_name(f".{Path(target).name}.draft")
    path = standing(path)
    verify(CheckpointIO(), path)
    try:
        dcp_to_torch_save(path, scratch)
        tree = torch.load(scratch, map_location="cpu", weights_only=True)
    finally:
        scratch.unlink(missing_ok=True)
    rest = CheckpointIO().load_checkpoint(Path(path) / REST_FILE)
    for key in ("optimizer_states", "names", "files"):
        rest.pop(key, None)
    if (header := Header.of(rest)) is not None and header.time is not None:
        rest |= header._replace(weights_only=True).entry()
    CheckpointIO().save_checkpoint({**rest, "state_dict": tree["state_dict"]}, target)


def _shards(entries: dict[Any, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        str(index): {name: value for name, value in entry.items() if isinstance(value, DTensor)}
        for index, entry in entries.items()
    }


def _kinds(entries: dict[Any, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each state what a rank needs to prepare memory for its part; what is no tensor goes here itself."""

    def kind(value: Any) -> Any:
        if isinstance(value, DTensor):
            return "like its parameter"
        return value.detach().cpu() if isinstance(value, Tensor) else value

    return {str(index): {name: kind(value) for name, value in entry.items()} for index, entry in entries.items()}


def _read_entries(params: list[Tensor], stored: Stored, kinds: dict[str, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    sharded = {
        index: {name: torch.zeros_like(params[int(index)]) for name, kind in names.items() if isinstance(kind, str)}
        for index, names in kinds.items()
    }
    if any(sharded.values()):
        _read({"optimizers": {stored.key: sharded}}, stored.path)
    return {int(index): {**names, **sharded[index]} for index, names in kinds.items()}


def _read(tensors: dict[str, Any], path: str) -> None:
    """Fill tensors in place from a folder."""
    _check_metadata(Path(path))
    load_shards(tensors, checkpoint_id=path)


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
    *(("torch", name) for name, value in vars(torch).items() if isinstance(value, torch.dtype)),
}


def _check_metadata(folder: Path) -> None:
    """Raise where reading torch's index of a folder would run code that is none of torch's own.

    Raises:
        CheckpointError: names the folder and what it would have called.
    """
    try:
        with (folder / ".metadata").open("rb") as file:
            _PlainUnpickler(file).load()
    except Exception as error:  # whatever senseless contents make of pickle's reader
        raise CheckpointError(f"{folder}: its index cannot be trusted or read: {error}.", code="LT745") from None
