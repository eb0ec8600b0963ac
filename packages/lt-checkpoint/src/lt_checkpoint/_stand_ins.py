"""Harmless stand-ins for classes and functions that checkpoints name: nothing of theirs is imported.

Lightning's files name its own classes, ``argparse.Namespace``, paths, numpy's numbers, OmegaConf's nodes. Reading gives
plain data for them: dicts, strings, numbers, tensors. Any other class becomes its name, and so does each object of it:
classes of other libraries and of the user's own scripts, and the data types of Python's standard library. numpy's are
read by hand, since a file that names them must load where numpy is not installed.
"""

from __future__ import annotations

import builtins
import struct
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import torch

SafeGlobals = list[Any]
"""The argument of ``torch.serialization.safe_globals``: pairs of a stand-in and its name."""

_OF_PYTHON = frozenset(
    (  # noqa: SIM905  (words are read more easily than a list of strings)
        "_io.BytesIO _io.StringIO array._array_reconstructor builtins.frozenset builtins.range builtins.slice "
        "collections.ChainMap collections.deque copyreg._reconstructor dataclasses._MISSING_TYPE datetime.date "
        "datetime.datetime datetime.time datetime.timedelta datetime.timezone decimal.Decimal enum.Enum "
        "fractions.Fraction functools.partial inspect._empty logging.getLogger operator.attrgetter operator.itemgetter "
        "random.Random re._compile types.MappingProxyType types.SimpleNamespace uuid.UUID zoneinfo.ZoneInfo"
    ).split()
)
_OF_PYTHON |= {
    f"builtins.{name}" for name, kind in vars(builtins).items() if BaseException in getattr(kind, "__mro__", ())
}
_OF_TORCH = tuple(f"torch.{name}" for name in ("_C.Generator", "nn.modules.", "nn.functional.", "nn.init.", "optim."))
_OF_TORCH += ("torch.utils.data.",)
_NAMES = frozenset(f"builtins.{kind}" for kind in ("bool", "dict", "float", "int", "list", "object", "str", "tuple"))
_NAMES |= {"numpy.ndarray", "typing.Any"}
MEMBER = "builtins.getattr"
"""The call of protocol 2 for a class in a class, and for a method."""


def known(name: str) -> bool:
    """Return whether there is a stand-in for a dotted ``name``; one that is only mentioned is a text."""
    return name.isprintable() and all(part.isidentifier() or part == "<locals>" for part in name.split("."))


def is_callable(name: str) -> bool:
    """Return whether the stand-in may be called or instantiated; all others are mentioned only.

    Python's own functions, and torch's, are no data: a file that calls them is refused, though nothing would be called.
    """
    if name in _STAND_INS or name in _OF_PYTHON or name.endswith("Error"):
        return True
    library = name.partition(".")[0]
    if library == "torch":
        return name.startswith(_OF_TORCH)
    return library not in sys.stdlib_module_names and name not in _NAMES


def is_special(name: str) -> bool:
    """Return whether a stand-in is no object of a class that this module knows nothing of."""
    return not is_dict(name) and (name in _STAND_INS or name.startswith("omegaconf."))


def may_be_kept(name: str) -> bool:
    """Return whether a file may mention the name where data stands: its stand-in becomes text."""
    return _STAND_INS.get(name) in (None, _Dict, _Shell)


def is_dict(name: str) -> bool:
    """Return whether calling the stand-in gives a dict."""
    return _STAND_INS.get(name) is _Dict


def safe_globals(names: set[str], containers: Mapping[str, type]) -> SafeGlobals:
    """Return the stand-ins for these names, as ``torch.serialization.add_safe_globals`` takes them.

    ``containers``: those whose objects are lists or dicts.
    """
    kinds: dict[type, Any] = {list: _List, dict: _Dict}
    made = {name: kinds[containers[name]] if name in containers else _stand_in(name) for name in sorted(names)}
    if MEMBER in made:
        made[MEMBER] = lambda owner, name: made.get(f"{getattr(owner, 'name', owner)}.{name}", _Mention(name))
    # torch knows nothing of the module in which Python 2 had its exceptions, by whose name protocol 2 writes them
    aliases = {name.replace("builtins.", "exceptions."): stand_in for name, stand_in in made.items()}
    return [(stand_in, name) for name, stand_in in (aliases | made).items()]


def plain(tree: Any) -> tuple[Any, set[str]]:
    """Return ``tree`` with stand-ins turned to plain data: dicts, strings, numbers, tensors; and whose objects it held.

    Hyperparameters that mention a class go to ``hparams_by_name``, as in our own files: they must be given again.
    """
    walk = _Plain()
    if isinstance(tree, dict):
        for prefix in ("", "datamodule_"):
            hparams = tree.get(f"{prefix}hyper_parameters")
            if isinstance(hparams, dict) and (names := [name for name in hparams if _mentions(hparams[name], set())]):
                tree[f"{prefix}hparams_by_name"] = {name: hparams.pop(name) for name in names}
    return walk.of(tree), walk.objects


def _stand_in(name: str) -> Any:
    """Return the stand-in for ``name`` in ``torch.load``: a class, a function, or the name itself if only mentioned."""
    if name in _STAND_INS:
        return _STAND_INS[name]
    if name == _Array.name:
        return _Array
    if name.startswith("omegaconf."):
        return _Shell
    return type("_Foreign", (_Foreign,), {"name": name}) if is_callable(name) else _Mention(name)


class _Mention(str):
    """The name of a class or function that a file mentions."""

    __slots__ = ()


class _Dict:
    """Makes plain dicts for subclasses of dict."""

    def __new__(cls, *args: Any) -> Any:
        return {}


class _List:
    """Makes plain lists for subclasses of list, and for deques."""

    def __new__(cls, *args: Any) -> Any:
        return []


class _Shell:
    """An object of a foreign class: nothing but its attributes."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {})


class _Foreign:
    """An object of any other class: nothing but the name of that."""

    name = ""

    def __new__(cls, *args: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *args: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def _path(*parts: Any) -> str:
    return str(PurePosixPath(*map(str, parts)))


def _value(value: Any = b"") -> Any:
    """Return an enum's value; the empty bytes, for which protocol 2 calls their class."""
    return value


# numpy's codes, by words since these are read more easily than a list of strings
_FORMATS = dict(zip("b1 f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split(), "?efdbhiqBHIQ", strict=True))  # noqa: SIM905


class _DType:
    """A numpy dtype: its code (``"f8"``) and byte order."""

    def __init__(self, code: str, *flags: Any) -> None:
        self.code, self.order = str(code), "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"

    def values(self, raw: Any) -> list[Any] | None:
        """Return numbers, texts or objects; None for a dtype of others."""
        if type(raw) is list:
            return raw
        if self.code in _FORMATS:
            return [value for (value,) in struct.iter_unpack(self.order + _FORMATS[self.code], raw)]
        kind, size = self.code[:1], int(self.code[1:]) if self.code[1:].isdecimal() else 0
        if kind not in ("S", "U") or not size:
            return None
        size *= 4 if kind == "U" else 1
        texts = [raw[at : at + size].rstrip(b"\0") for at in range(0, len(raw), size)]
        if kind == "S":
            return texts
        return [(text + bytes(-len(text) % 4)).decode(f"utf-32-{'bl'[self.order == '<']}e") for text in texts]


def _scalar(dtype: _DType, raw: Any) -> Any:
    values = dtype.values(raw)
    return values[0] if values else _stand_in(f"numpy.{dtype.code}")()


class _Array:
    """A numpy array: of numbers, which becomes a tensor; of texts or objects, a list; of others, its name."""

    name = "numpy.ndarray"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, self.dtype, self.fortran, raw = state
        self.shape, self.values = tuple(shape), self.dtype.values(raw)

    def plain(self) -> Any:
        places = torch.arange(len(self.values or ())).reshape(self.shape[::-1] if self.fortran else self.shape)
        if self.fortran:
            places = places.permute(*reversed(range(len(self.shape))))
        if self.dtype.code in _FORMATS:
            return torch.tensor(self.values, dtype=_TORCH_TYPES.get(self.dtype.code))[places]
        return _chosen(self.values, places.tolist()) if self.values else []


def _chosen(values: list[Any], places: Any) -> Any:
    return [_chosen(values, each) for each in places] if type(places) is list else values[places]


_TORCH_NAMES = "bool float16 float32 float64 int8 int16 int32 int64 uint8".split()  # noqa: SIM905
_TORCH_TYPES = dict(zip(_FORMATS, map(partial(getattr, torch), _TORCH_NAMES), strict=False))


def _reconstruct(*args: Any) -> _Array:
    return _Array()


_NUMPYS = [f"numpy.{core}.multiarray." for core in ("core", "_core")]
_STAND_INS: dict[str, Any] = {
    "argparse.Namespace": _Shell,
    "collections.defaultdict": _Dict,
    "lightning.fabric.utilities.data.AttributeDict": _Dict,
    "lightning.pytorch.utilities.parsing.AttributeDict": _Dict,
    "lightning_fabric.utilities.data.AttributeDict": _Dict,
    "pytorch_lightning.utilities.parsing.AttributeDict": _Dict,
    **{
        f"{module}.{flavour}Path": _path
        for module in ("pathlib", "pathlib._local")  # Python 3.13 writes the second
        for flavour in ("", "Pure", "Posix", "PurePosix", "Windows", "PureWindows")
    },
    "pytorch_lightning.callbacks.early_stopping.EarlyStoppingReason": _value,
    "builtins.bytes": _value,
    "numpy.dtype": _DType,
    **{f"{module}scalar": _scalar for module in _NUMPYS},
    **{f"{module}_reconstruct": _reconstruct for module in _NUMPYS},
}
"""Stand-ins for names that Lightning's files hold, and others that mean plain data."""


class _Plain:
    """One walk over a tree; a value that occurs twice is walked once.

    Attributes:
        objects: the names of the classes of which it met objects.
    """

    def __init__(self) -> None:
        self.objects: set[str] = set()
        self._done: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        if id(value) in self._done:
            return self._done[id(value)][1]
        kind, form = type(value), value
        if kind is list:
            self._done[id(value)] = value, value
            value[:] = [self.of(item) for item in value]
        elif isinstance(value, dict):
            self._done[id(value)] = value, value
            items = list(value.items())
            value.clear()
            for key, item in items:
                value[self.of(key)] = self.of(item)
        elif kind is tuple:
            form = tuple(self.of(item) for item in value)
        elif kind is _Array and value.values is not None:
            form = self.of(value.plain())
        elif kind is _Shell:
            form = self._opened(value)
        elif kind is _DType:
            form = value.code
        elif kind is _Mention:
            form = str(value)
        elif isinstance(value, (_Foreign, _Array)):
            self.objects.add(value.name)
            form = value.name
        elif isinstance(value, type):
            form = value.name if issubclass(value, _Foreign) else value.__name__.strip("_").lower()
        self._done[id(value)] = value, form
        return form

    def _opened(self, shell: _Shell) -> Any:
        """Return the contents of OmegaConf's nodes, and the attributes of other foreign objects by name."""
        state = vars(shell)
        for inner in ("_content", "_val"):
            if inner in state:
                return self.of(state[inner])
        return {key: self.of(item) for key, item in state.items() if not key.startswith("_")}


def _mentions(value: Any, seen: set[int]) -> bool:
    """Return whether there is the name of a class, or an object of one, somewhere in ``value``."""
    if isinstance(value, (_Mention, _Foreign, type)):
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    if type(value) is _Array:
        return value.values is None or _mentions(value.values, seen)
    inside = vars(value) if type(value) is _Shell else value
    inside = inside.values() if isinstance(inside, dict) else inside if isinstance(inside, (list, tuple)) else ()
    return any(_mentions(item, seen) for item in inside)
