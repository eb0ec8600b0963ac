"""Harmless stand-ins for what other people's checkpoints name beside plain data: nothing of theirs is imported.

Lightning's files name its own classes, ``argparse.Namespace``, paths, numpy's numbers, OmegaConf's nodes. Reading gives
plain data for them: dicts, strings, numbers, tensors; classes that are only mentioned become their names. numpy's are
read by hand, since a file that names them must load where numpy is not installed.
"""

from __future__ import annotations

import struct
from pathlib import PurePosixPath
from typing import Any

import torch

SafeGlobals = list[Any]
"""What ``torch.serialization.safe_globals`` takes: pairs of a stand-in and the name that it stands for."""

_DICTS = frozenset(
    {
        "collections.defaultdict",
        "lightning.fabric.utilities.data.AttributeDict",
        "lightning.pytorch.utilities.parsing.AttributeDict",
        "lightning_fabric.utilities.data.AttributeDict",
        "pytorch_lightning.utilities.parsing.AttributeDict",
    }
)
_PATHS = frozenset(
    f"{module}.{flavour}Path"
    for module in ("pathlib", "pathlib._local")  # Python 3.13 writes the second
    for flavour in ("", "Pure", "Posix", "PurePosix", "Windows", "PureWindows")
)
_ENUMS = frozenset({"pytorch_lightning.callbacks.early_stopping.EarlyStoppingReason"})
_NUMPY = frozenset(
    {"numpy.dtype"}
    | {f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")}
)
_SHELL_PREFIXES = ("omegaconf.",)
_SHELLS = frozenset({"argparse.Namespace"})
_NAME_PREFIXES = ("lightning.", "pytorch_lightning.", "torch.nn.", "torch.optim.")
_NAMES = frozenset(f"builtins.{kind}" for kind in ("bool", "dict", "float", "int", "list", "object", "str", "tuple"))
_NAMES |= {"numpy.ndarray", "typing.Any"}


def known(name: str) -> bool:
    """Return whether there is a stand-in for a dotted ``name``."""
    return is_callable(name) or name in _NAMES or name.startswith(_NAME_PREFIXES)


def is_callable(name: str) -> bool:
    """Return whether the stand-in may be called or instantiated; all others are mentioned only."""
    return name in _DICTS | _PATHS | _ENUMS | _NUMPY | _SHELLS or name.startswith(_SHELL_PREFIXES)


def is_dict(name: str) -> bool:
    """Return whether calling the stand-in gives a dict."""
    return name in _DICTS


def safe_globals(names: set[str]) -> SafeGlobals:
    """Return the stand-ins for these names, as ``torch.serialization.safe_globals`` takes them."""
    return [(_stand_in(name), name) for name in sorted(names)]


def plain(tree: Any) -> Any:
    """Return ``tree`` with stand-ins turned to plain data: dicts, strings, numbers, tensors.

    Hyperparameters that mention a class go to ``hparams_by_name``, as in our own files: they must be given again.
    """
    if isinstance(tree, dict):
        for prefix in ("", "datamodule_"):
            hparams = tree.get(f"{prefix}hyper_parameters")
            if isinstance(hparams, dict) and (names := [name for name in hparams if _mentions(hparams[name], set())]):
                tree[f"{prefix}hparams_by_name"] = {name: hparams.pop(name) for name in names}
    return _plain(tree, {})


def _stand_in(name: str) -> Any:
    """Return what stands for ``name`` in ``torch.load``: a class, a function, or for a mere mention the name itself."""
    if name in _DICTS:
        return _Dict
    if name in _PATHS:
        return _path
    if name in _ENUMS:
        return _enum
    if name == "numpy.dtype":
        return _DType
    if name == "numpy.ndarray":
        return _Array
    if name.endswith(".scalar") and name in _NUMPY:
        return _scalar
    if name in _NUMPY:
        return _reconstruct
    return _Shell if is_callable(name) else _Mention(name)


class _Mention(str):
    """The name of a class or function that a file mentions."""

    __slots__ = ()


class _Dict:
    """Makes plain dicts for subclasses of dict."""

    def __new__(cls, *args: Any) -> Any:
        return {}


class _Shell:
    """An object of a foreign class: nothing but its attributes."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {})


def _path(*parts: Any) -> str:
    return str(PurePosixPath(*map(str, parts)))


def _enum(value: Any) -> Any:
    return value


class _DType:
    """A numpy dtype of numbers: its code (``"f8"``) and byte order."""

    formats = {"b1": "?", "f2": "e", "f4": "f", "f8": "d"} | dict(
        zip(("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"), "bhiqBHIQ", strict=True)
    )

    def __init__(self, code: str, *flags: Any) -> None:
        self.code, self.order = str(code), "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"

    def numbers(self, raw: bytes) -> list[Any]:
        if self.code not in self.formats:
            raise ValueError(f"numpy's type {self.code!r} is no number")
        return [value for (value,) in struct.iter_unpack(self.order + self.formats[self.code], raw)]


def _scalar(dtype: _DType, raw: bytes) -> Any:
    (number,) = dtype.numbers(raw)
    return number


class _Array:
    """A numpy array of numbers, which becomes a tensor."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.dtype, self.fortran, self.raw = state

    def tensor(self) -> torch.Tensor:
        flat = torch.tensor(self.dtype.numbers(self.raw), dtype=_TORCH_TYPES.get(self.dtype.code))
        shape = tuple(self.shape)
        return flat.reshape(shape[::-1]).permute(*reversed(range(len(shape)))) if self.fortran else flat.reshape(shape)


_TORCH_TYPES = {
    "b1": torch.bool,
    "f2": torch.float16,
    "f4": torch.float32,
    "f8": torch.float64,
    "i1": torch.int8,
    "i2": torch.int16,
    "i4": torch.int32,
    "i8": torch.int64,
    "u1": torch.uint8,
}


def _reconstruct(*args: Any) -> _Array:
    return _Array()


def _plain(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    """Return the plain form; ``done`` holds (value, form) by id, so that what occurs twice is walked once."""
    if id(value) in done:
        return done[id(value)][1]
    kind, form = type(value), value
    if kind is list:
        done[id(value)] = value, value
        value[:] = [_plain(item, done) for item in value]
    elif isinstance(value, dict):
        done[id(value)] = value, value
        items = list(value.items())
        value.clear()
        for key, item in items:
            value[_plain(key, done)] = _plain(item, done)
    elif kind is tuple:
        form = tuple(_plain(item, done) for item in value)
    elif kind is _Array:
        form = value.tensor()
    elif kind is _Shell:
        form = _opened(value, done)
    elif kind is _DType:
        form = value.code
    elif kind is _Mention:
        form = str(value)
    elif isinstance(value, type):
        form = value.__name__.strip("_").lower()
    done[id(value)] = value, form
    return form


def _mentions(value: Any, seen: set[int]) -> bool:
    """Return whether there is the name of a class somewhere in ``value``."""
    if type(value) is _Mention:
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(_mentions(item, seen) for item in inside)


def _opened(shell: _Shell, done: dict[int, tuple[Any, Any]]) -> Any:
    """Return what a foreign object holds: OmegaConf's nodes their contents, others their attributes by name."""
    state = vars(shell)
    for inner in ("_content", "_val"):
        if inner in state:
            return _plain(state[inner], done)
    return {key: _plain(item, done) for key, item in state.items() if not key.startswith("_")}
