"""Reading checkpoints: checked first, then by ``torch.load(weights_only=True)``; no code of the file runs.

Order of the checks: the kind of file, the archive's directory, the pickle by a dry run, sizes of all records,
their checksums: each record is summed as torch reads it, so that its bytes are read once. Each failure is one
:class:`CheckpointError` that names the path, the reason and the remedy.
"""

from __future__ import annotations

import pickle
import threading
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

import torch

from lt_checkpoint import _stand_ins as stand_ins
from lt_checkpoint._archive import Archive, DamagedError
from lt_checkpoint._atomic_folder import StrPath
from lt_checkpoint._pickle_calls import RefusedError
from lt_checkpoint._pickle_check import Findings, dry_run
from lt_core.errors import (
    CheckpointError,
    MissingCheckpointError,
    near_files,
    warn,
)

_one_at_a_time = threading.Lock()
"""torch's list of safe names belongs to the process."""

_KINDS = (
    (b"version https://git-lfs", "a pointer of git-lfs, not the file itself: git lfs pull"),
    (b"\x1f\x8b", "packed by gzip: unpack it first"),
    (b"<", "a web page or XML: was the download refused?"),
    (b"\x89HDF", "an HDF5 file"),
    (b"{", "JSON text"),
    (
        b"\x80",
        "a bare pickle, or of torch before 1.6: torch.save(torch.load(path), path) writes it anew",
    ),
)


class _ForeignError(Exception):
    """A file that no ``torch.save`` wrote, trusted or not."""


class _UntrustworthyError(Exception):
    """An exception raised by the code of a trusted file."""


def read_checkpoint(
    source: StrPath | IO[bytes],
    map_location: Any = None,
    *,
    trusted: bool = False,
    mmap: bool = False,
    verify: bool = True,
    name: str | None = None,
) -> dict[str, Any]:
    """Return the tree in a checkpoint file; the arguments are :func:`lt_checkpoint.load`'s.

    Args:
        source: a path, or a file open for reading in binary. Only a path can be mapped (``mmap``).
        map_location: as in ``torch.load``. lt writes tensors from the CPU.
        trusted: read it even if it is more than plain data.
        mmap: map tensors from the file; checksums are then not compared.
        verify: compare the checksum of every record.
        name: in errors; default: the path.

    Raises:
        CheckpointError: for a file that is missing, empty, damaged, foreign or hostile.
        Exception: torch's own, for another ``map_location`` than the CPU to which tensors cannot go.
    """
    with _opened(source, name) as (file, path, shown):
        archive, found = _check(file, trusted)
        location = map_location or ("cpu" if found.device_tensors else _where_it_was)
        if verify and not mmap:
            reading: AbstractContextManager[Path | IO[bytes]] = archive.verifying()
        else:
            reading = nullcontext(path if mmap and path else file)
        file.seek(0)
        with reading as contents:
            tree = _load(contents, location, found, trusted, mmap, shown)
    if not isinstance(tree, dict):
        kind = next(iter(found.objects), type(tree).__name__)
        raise CheckpointError(f"{shown} holds a {kind}: expected a dict with the keys of a checkpoint.", code="LT658")
    if found.objects and "state_dict" in tree:
        warn(
            f"{shown} holds objects of {', '.join(sorted(found.objects))}. Nothing of these is imported: the name of "
            "its class stands for each, and all else is read as it is.",
            code="LT621",
        )
    return tree


def verify_checkpoint(source: StrPath | IO[bytes], *, name: str | None = None) -> None:
    """Raise unless a checkpoint file is complete, undamaged, and plain data and tensors only.

    Raises:
        CheckpointError: with path, reason and way out.
    """
    with _opened(source, name) as (file, _, _):
        archive, _ = _check(file, trusted=False)
        with archive.verifying():
            pass


@contextmanager
def _opened(source: Any, name: str | None) -> Iterator[tuple[IO[bytes], Path | None, str]]:
    """Return a context with the file to read, its path and its name; one of the caller's stays open. Every error names
    it.
    """
    path = Path(source) if isinstance(source, (str, PathLike)) else None
    shown = name or str(source if path else getattr(source, "name", "the open file"))
    try:
        with nullcontext(source) if path is None else _open(path, shown) as file:
            yield file, path, shown
            if path is None:
                file.seek(0)
    except (DamagedError, RefusedError, _ForeignError, _UntrustworthyError) as error:
        raise _refusal(shown, error) from error
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"{shown} could not be read: {error.strerror or error}.", code="LT656") from error


def _open(path: Path, shown: str) -> IO[bytes]:
    if path.is_dir():
        raise CheckpointError(
            f"{shown} is a folder: expected a file. A sharded checkpoint is such a folder: load_from_checkpoint, a "
            f"Trainer and `lt ckpt convert {shown} whole.ckpt`, which makes one file of it, read it."
            f"{near_files(path / 'last.ckpt')}",
            code="LT659",
        )
    if not path.is_file():  # opening a pipe would wait for its writer
        gone = f"points to {str(path.readlink())!r}, which is gone" if path.is_symlink() else "is not there"
        gone = "is no regular file" if path.exists() else gone
        raise MissingCheckpointError(f"{shown} {gone}.{near_files(path)}", code="LT656")
    return path.open("rb", buffering=0)  # torch reads whole records


def _check(file: IO[bytes], trusted: bool) -> tuple[Archive, Findings]:
    """Check all but checksums; return the archive and the findings in its pickle."""
    file.seek(0)
    head = file.read(64)
    if not head.strip(b"\0"):
        raise DamagedError("it is empty" if not head else "it begins with nothing but zeros")
    if head[:4] != b"PK\x03\x04":
        kinds = (what for magic, what in _KINDS if head.lstrip().startswith(magic))
        raise _ForeignError(f"it is {next(kinds, 'no file that torch.save wrote')}")
    try:
        archive = Archive(file)
    except DamagedError:
        names: list[str] = []
        with suppress(Exception), zipfile.ZipFile(file) as seen:  # whatever a damaged one makes of Python's reader
            names = seen.namelist()
        _refuse_foreign(names)
        raise
    _refuse_foreign(list(archive.records))
    program = archive.read("data.pkl")
    return archive, Findings() if trusted else _check_pickle(archive, program)


def _refuse_foreign(names: list[str]) -> None:
    """Raise for the names in a sound archive that no ``torch.save`` wrote; a damaged one keeps some of its own."""
    last = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in last:
        raise _ForeignError("it is a TorchScript program: torch.jit.load reads those")
    if not names or last & {"data.pkl", "version", "byteorder", "serialization_id"}:
        return
    if all(name.endswith(".npy") for name in names):
        raise _ForeignError("it is a file of numpy's savez: numpy.load reads those")
    raise _ForeignError(f"it is a zip archive of other files ({', '.join(map(repr, names[:3]))}...)")


def _check_pickle(archive: Archive, program: bytes) -> Findings:
    found = dry_run(program)
    if found.end != len(program):
        raise RefusedError("something follows its pickle")
    for key, num_bytes in found.storages.items():
        record = archive.records.get(f"data/{key}")
        if record is None or record.size != num_bytes:
            has = f"has {record.size}" if record else "is not there"
            raise DamagedError(f"a tensor needs {num_bytes} bytes of its record 'data/{key}', which {has}")
    return found


def _load(source: Path | IO[bytes], map_location: Any, found: Findings, trusted: bool, mmap: bool, shown: str) -> Any:
    try:
        if trusted:
            warn(
                f"trusted=True: {shown} may run any code while it is read. Only for files that you made yourself.",
                code="LT655",
            )
            return torch.load(source, map_location=map_location, weights_only=False, mmap=mmap)
        # torch does not check the indices of sparse tensors by itself, and reads outside of memory by them
        checked = torch.sparse.check_sparse_tensor_invariants(True)  # type: ignore[no-untyped-call]
        with _one_at_a_time, _only_names(stand_ins.safe_globals(found.foreign, found.containers)), checked:
            tree = torch.load(source, map_location=map_location, weights_only=True, mmap=mmap)
        if not found.foreign:
            return tree
        tree, found.objects = stand_ins.plain(tree)
        return tree
    except pickle.UnpicklingError as error:
        raise RefusedError(f"torch.load says: {(str(error).splitlines() or [''])[0][:300]}") from error
    except OSError:
        raise
    except Exception as error:
        if map_location not in ("cpu", torch.device("cpu"), _where_it_was):
            raise  # tensors may not be able to go there, for which the file is not to blame
        said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"
        if trusted:  # its own code, as far as checksums tell, which are compared in the end
            raise _UntrustworthyError(said) from error
        raise DamagedError(f"reading ends in {said}") from error  # whatever senseless contents make of torch's reader


@contextmanager
def _only_names(names: stand_ins.SafeGlobals) -> Iterator[None]:
    """Return a context in which torch knows these names beside its own, and none that others have declared safe."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with torch.serialization.safe_globals(names):
            yield
    finally:
        torch.serialization.add_safe_globals(before)


def _where_it_was(storage: Any, location: str) -> Any:
    """Return the storage on the CPU where its device is not here; None lets torch move it to where it was."""
    kind, _, index = location.partition(":")
    is_here = kind in ("cuda", "mps") and int(index or 0) < getattr(torch, kind).device_count()
    return None if is_here else storage


def _refusal(shown: str, error: Exception) -> CheckpointError:
    if isinstance(error, _ForeignError):
        return CheckpointError(
            f"{shown} is no checkpoint: {error}. Expected a file that lt, Lightning or torch.save wrote.",
            code="LT658",
        )
    if isinstance(error, _UntrustworthyError):
        return CheckpointError(
            f"{shown} was not read: its own code raised {error}. Install what it needs, in the versions that it was "
            "written with; or read it without trusted=True (--trusted): objects then stand there as the names of their "
            "classes, and its weights are read.",
            code="LT658",
        )
    if isinstance(error, RefusedError):
        return CheckpointError(
            f"{shown} was not read: {error}. Only plain data and tensors are read, so that no file can run code. If "
            "you made it yourself and know what is in it, ask for it all the same: weights_only=False in Python, "
            "--trusted for lt ckpt.",
            code="LT658",
        )
    near = near_files(Path(shown)) if "://" not in shown else ""
    return CheckpointError(f"{shown} is damaged: {error}. Take an older checkpoint.{near}", code="LT657")
