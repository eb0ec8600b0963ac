"""``lt ckpt``: look into checkpoints, verify, convert and export them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lt_cli.checkpoints.report import contents, tensors_of
from lt_cli.command import CommandError
from lt_core import plugins
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError, did_you_mean
from lt_core.files.checkpoint_header import Header
from lt_core.plugins import install_hint
from lt_core.terminal import visible


def run(options: argparse.Namespace) -> int:
    """Run ``lt ckpt``; return the exit status: 1 for a bad checkpoint, 2 for a bad command."""
    steps = {"show": _show, "verify": _verify, "convert": _convert, "export": _export}
    try:
        return steps[options.what](options)
    except CommandError as error:
        print(f"lt ckpt: error: {error}", file=sys.stderr)
        return 2
    except CheckpointError as error:
        print(f"lt ckpt: {error}", file=sys.stderr)
        return 1


def convert(
    source: Path, target: Path, *, weights_only: bool = False, dtype: torch.dtype | None = None, trusted: bool = False
) -> None:
    """Write a checkpoint again as plain data, in the layout that lt and Lightning read.

    Args:
        source: a checkpoint of lt or Lightning (1.x too), a sharded one's folder, or bare weights.
        target: the file to write.
        weights_only: leave out the state for a resume.
        dtype: a type for floating-point weights; optimizers keep theirs.
        trusted: read it even if it is more than plain data; it can then run any code.

    Raises:
        CheckpointError: when a file cannot be read or written.
    """
    tree = _reader(source).load_checkpoint(source, map_location="cpu", trusted=trusted)
    if "state_dict" not in tree and all(isinstance(value, Tensor) for value in tree.values()):
        tree = {"epoch": 0, "global_step": 0, "pytorch-lightning_version": "2.5.0", "state_dict": tree, "loops": {}}
    if weights_only:
        tree = {key: value for key, value in tree.items() if key not in _TRAINING_ONLY}
        if (header := Header.of(tree)) is not None and header.time is not None:
            tree |= header._replace(weights_only=True).entry()
    if dtype is not None:
        tree["state_dict"] = {name: _cast(value, dtype) for name, value in tree.get("state_dict", {}).items()}
    CheckpointIO().save_checkpoint(tree, target)


_TRAINING_ONLY = ("optimizer_states", "lr_schedulers", "callbacks", "loops", "lt", "gaps", "native_amp_scaling_state")


def export(
    source: Path, target: Path, *, prefix: str = "", dtype: torch.dtype | None = None, trusted: bool = False
) -> int:
    """Write the weights of a checkpoint alone; return how many tensors.

    Args:
        source: a checkpoint.
        target: ``*.safetensors``, or ``*.pt``/``*.pth`` for a state dict by ``torch.save``.
        prefix: take only names that begin with it, and cut it off.
        dtype: a type for floating-point weights.
        trusted: read it even if it is more than plain data; it can then run any code.

    Raises:
        CommandError: for another ending, a prefix that no name has, or when safetensors is not installed.
        CheckpointError: when a file cannot be read or written.
    """
    tree = _reader(source).load_checkpoint(source, map_location="cpu", trusted=trusted)
    weights = weights_of(tree, prefix)
    if dtype is not None:
        weights = {name: _cast(tensor, dtype) for name, tensor in weights.items()}
    if target.suffix == ".safetensors":
        _write_safetensors(weights, target, _metadata(tree))
    elif target.suffix in (".pt", ".pth"):
        CheckpointIO().save_checkpoint(weights, target)
    else:
        raise CommandError(
            f"{target.name}: expected a name that ends in .safetensors, .pt or .pth. For a whole checkpoint: lt ckpt "
            "convert.",
            code="LT164",
        )
    return len(weights)


def weights_of(tree: dict[str, Any], prefix: str = "") -> dict[str, Tensor]:
    """Return the weights in a checkpoint by name.

    Args:
        tree: the checkpoint, or a bare state dict.
        prefix: take only names that begin with it, and cut it off.

    Raises:
        CommandError: where there are none.
    """
    given = tree.get("state_dict", tree)
    state = given if isinstance(given, dict) else {}
    found = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    kept = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    if not kept:
        starts = {name.partition(".")[0] + "." for name in found}
        raise CommandError(
            f"no weight begins with {prefix!r}.{did_you_mean(prefix, starts)} They begin with: "
            f"{', '.join(sorted(starts)) or 'nothing, there are none'}.",
            code="LT164",
        )
    return kept


# ---- commands --------------------------------------------------------------------------------------------------------


def _show(options: argparse.Namespace) -> int:
    tree = _reader(options.path).load_checkpoint(options.path, map_location="cpu", trusted=options.trusted)
    found = contents(tree, options.weights)
    found = {"file": f"{options.path}, {_size(options.path) / 1e6:.3f} MB", **found}
    if options.json:
        print(json.dumps(found, indent=2, default=str))
        return 0
    width = max(map(len, found)) + 2
    for key, value in found.items():
        first, *more = (visible(line).replace("\n", "\\n") for line in _lines(value))
        print(f"{key:{width}}{first}")
        for line in more:
            print(" " * width + line)
    return 0


def _verify(options: argparse.Namespace) -> int:
    files = [file for path in options.paths for file in _checkpoints(path)]
    if not files:
        raise CommandError(f"there is no checkpoint in {', '.join(map(str, options.paths))}.", code="LT164")
    bad = 0
    for file in files:
        try:
            _reader(file).verify(file)
            print(visible(f"{file}: complete and undamaged"))
        except CheckpointError as error:
            bad += 1
            print(error)
    return min(bad, 1)


def _convert(options: argparse.Namespace) -> int:
    dtype = options.dtype and getattr(torch, options.dtype)
    convert(options.source, options.target, weights_only=options.weights_only, dtype=dtype, trusted=options.trusted)
    print(f"{options.target}: {options.target.stat().st_size / 1e6:.3f} MB")
    return 0


def _export(options: argparse.Namespace) -> int:
    dtype = options.dtype and getattr(torch, options.dtype)
    count = export(options.source, options.target, prefix=options.prefix, dtype=dtype, trusted=options.trusted)
    print(f"{options.target}: {count} tensors, {options.target.stat().st_size / 1e6:.3f} MB")
    return 0


def _lines(value: Any) -> list[str]:
    """Return a value as lines of text: an item a line, nested ones indented."""
    if isinstance(value, dict):
        return [line for name, item in value.items() for line in _item(name, item)]
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _item(name: str, value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [name, *(f"  {line}" for line in _lines(value))]
    return [f"{name}: {value}"]


# ---- files -----------------------------------------------------------------------------------------------------------


def _reader(path: Path) -> CheckpointIO:
    """Return the reader of a checkpoint: of one file, or of a sharded folder."""
    reader = plugins.find("checkpoint_io", "sharded") if path.is_dir() else None
    return CheckpointIO() if reader is None else reader()


def _checkpoints(path: Path) -> list[Path]:
    """Return the checkpoints that a path stands for: itself, or all in a folder."""
    if not path.is_dir() or path.suffix == ".ckpt" or _is_sharded(path):
        return [path]
    patterns = ("*.ckpt", "*.safetensors", "*.distcp", ".metadata")
    files = {pattern: list(path.rglob(pattern)) for pattern in patterns}
    folders = {file.parent for part in files.values() for file in part}
    found = {*files["*.ckpt"], *files["*.safetensors"], *filter(_is_sharded, folders)}
    return sorted(file for file in found if not any(parent in found for parent in file.parents))


def _is_sharded(folder: Path) -> bool:
    """Return whether a folder is a sharded checkpoint, or the rest of one, by its contents."""
    return (folder / ".metadata").is_file() or any(folder.glob("*.distcp")) or _reader(folder).exists(folder.absolute())


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _metadata(tree: dict[str, Any]) -> dict[str, str]:
    """Return the texts that safetensors keeps beside the weights."""
    described = contents(tree)
    kept = {name: described[name] for name in ("epoch", "step", "hyperparameters") if name in described}
    return {"format": "pt", **{name: json.dumps(value, default=str) for name, value in kept.items()}}


def _write_safetensors(weights: dict[str, Tensor], target: Path, metadata: dict[str, str]) -> None:
    try:
        from safetensors.torch import save_file
    except ImportError:
        remedy = install_hint("lt-cli[safetensors]")
        raise CommandError(f"export to .safetensors needs the package safetensors: {remedy}", code="LT165") from None
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        # tied weights share memory, which the format does not know: each gets its own
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors_of(weights)}, beside, metadata)
        beside.replace(target)
    except OSError as error:
        raise CheckpointError(f"{target} could not be written: {error.strerror or error}.", code="LT614") from error
    finally:
        beside.unlink(missing_ok=True)
