"""The first wall before a checkpoint is read: a dry run of its pickle that imports, calls and allocates nothing.

A pickle is a program for a small stack machine. :func:`dry_run` runs it with stand-ins for all that it names: only the
opcodes that plain data and tensors need, only a short list of names, each called only with arguments that fit, every
tensor inside its storage. Everything else is refused; the second wall is ``torch.load(weights_only=True)``.

It is Python's unpickler in Python, with those opcodes alone. The second wall allocates as much as a few bytes ask for;
``pickletools.genops`` undoes escapes in names, so that it reads another name than torch does.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lt_checkpoint import _stand_ins as stand_ins
from lt_checkpoint._pickle_calls import (
    CALLS,
    DEVICE_TENSOR,
    STORAGE_BYTES,
    Foreign,
    Global,
    Ordered,
    RefusedError,
    Storage,
    checked_key,
    checked_value,
    is_count,
    is_plain_name,
    kind_of,
)


class CutOffError(RefusedError):
    """A pickle that does not come to its end."""


MAX_DEPTH = 1000
"""Containers in containers; lt's files have at most 200."""

_TOO_DEEP = f"its pickle nests containers more than {MAX_DEPTH} deep"


@dataclass(slots=True)
class Findings:
    """Result of a dry run.

    Attributes:
        root: the outermost value; containers are real, tensors are not.
        storages: bytes of each storage that tensors point into, by its key in the archive.
        device_tensors: whether there are tensors of devices without storages (XLA), which torch reads to one device.
        containers: kind (list or dict) of the objects of a foreign class that get items.
        objects: names of classes that stand for objects of them, once the file is read.
        foreign: names outside of plain data for which :mod:`lt_checkpoint._stand_ins` has a harmless stand-in.
        end: offset of the first byte after the pickle.
    """

    root: Any = None
    storages: dict[str, int] = field(default_factory=dict)
    device_tensors: bool = False
    foreign: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    containers: dict[str, type] = field(default_factory=dict)
    end: int = 0


def dry_run(data: bytes, start: int = 0) -> Findings:
    """Check the pickle in ``data`` that begins at ``start``.

    Raises:
        RefusedError: for a pickle that is cut off, senseless, or does anything but build plain data and tensors.
    """
    machine = _Machine(data, start)
    try:
        return machine.run()
    except IndexError as error:
        raise CutOffError("its pickle is cut off or senseless") from error
    except _SENSELESS as error:
        raise RefusedError(f"its pickle is senseless ({type(error).__name__}: {error})") from error


def first_item(data: bytes, start: int) -> tuple[Any, Any] | None:
    """Return the first key and value of the outermost dict, where ``data`` holds at least these in full.

    The rest may be cut off, or refused by :func:`dry_run`.
    """
    machine = _Machine(data, start)
    with contextlib.suppress(RefusedError, IndexError, *_SENSELESS):
        machine.run()
    levels = [*machine.metastack, machine.stack]
    root = machine.found.root if machine.found.end else next(iter(levels[0]), None)
    items = levels[1] if len(levels) > 1 else []
    if not isinstance(root, dict):
        return None
    # where a third stands there, the second is whole
    return next(iter(root.items()), None) or ((items[0], items[1]) if len(items) > 2 else None)


_SENSELESS = (ValueError, TypeError, KeyError, RecursionError, AttributeError, OverflowError, pickle.UnpicklingError)


class _Whole(io.BytesIO):
    """Bytes that are read whole or not at all: Python's unpickler takes a text that is cut off for a whole one."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if len(data) != size:
            raise CutOffError("its pickle is cut off")
        return data

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline()
        if not line.endswith(b"\n"):
            raise CutOffError("its pickle is cut off")
        return line


_Unpickler: Any = (
    pickle._Unpickler
)  # the one in Python, whose opcodes can be chosen and changed; typeshed knows no more


class _Machine(_Unpickler):  # type: ignore[misc]
    """Python's unpickler over stand-ins: no name is imported, nothing but :data:`CALLS` is called."""

    def __init__(self, data: bytes, start: int) -> None:
        self.file, self.found = _Whole(data), Findings()
        self.file.seek(start)
        super().__init__(self.file, encoding="bytes")

    def run(self) -> Findings:
        self.found.root, self.found.end = self.load(), self.file.tell()
        _check_depth(self.found.root)
        return self.found

    # ---- names and tensors -------------------------------------------------------------------------------------------

    def find_class(self, module: str, name: str) -> Global:
        # protocol 2 writes Python 2's names
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        full = f"{module}.{name}"
        known = full in CALLS or is_plain_name(module, name)
        if full == DEVICE_TENSOR:
            self.found.device_tensors = True
        return Global(full) if known else self.stood_in(full)

    def stood_in(self, name: str) -> Global:
        """Note a name that a stand-in is needed for."""
        if not stand_ins.known(name):
            raise RefusedError(f"it names {name}, which is no plain data and is not imported")
        self.found.foreign.add(name)
        return Global(name)

    def persistent_load(self, reference: Any) -> Storage:
        if type(reference) is not tuple or len(reference) not in (5, 6) or reference[0] != "storage":
            raise RefusedError("it points to something that is no tensor's data")
        _, kind, key, location, numel = reference[:5]
        name = kind.name.rpartition(".")[2] if type(kind) is Global else ""
        item = STORAGE_BYTES.get(name, 0)
        fits = item and type(key) is str and type(location) is str and is_count(numel)
        if not fits or reference[5:] not in ((), (None,)):
            raise RefusedError("it points to a tensor's data in a senseless way")
        if self.found.storages.setdefault(key, numel * item) != numel * item:
            raise RefusedError(f"it gives the tensor's data {key!r} two sizes")
        return Storage(key, numel * item, item)

    # ---- opcodes that do more, or something else, than Python's ------------------------------------------------------

    def load_proto(self) -> None:
        if self.read(1)[0] != 2:
            raise RefusedError("its pickle is not of protocol 2, as torch.save writes it")

    def load_mark(self) -> None:
        if len(self.metastack) > MAX_DEPTH:
            raise RefusedError(_TOO_DEEP)
        super().load_mark()

    def load_append(self) -> None:
        self._extend([self.stack.pop()])

    def load_appends(self) -> None:
        self._extend(self.pop_mark())

    def _extend(self, items: list[Any]) -> None:
        target = self._contents(list)
        if type(target) is not list:
            raise RefusedError(f"its pickle appends to a {kind_of(self.stack[-1])}")
        target.extend(_kept(items))

    def _contents(self, kind: type) -> Any:
        """Return the container on top of the stack; for an object of a foreign class that turns out to be a subclass of
        ``kind`` an empty one, and its stand-in makes such containers.
        """
        target = self.stack[-1]
        if type(target) is not Foreign:
            return target
        known = self.found.containers.setdefault(target.name, kind)
        return kind() if known is kind and not stand_ins.is_special(target.name) else None

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set_items([key, value])

    def load_setitems(self) -> None:
        self._set_items(self.pop_mark())

    def _set_items(self, items: list[Any]) -> None:
        target = self._contents(dict)
        if type(target) not in (dict, Ordered) or len(items) % 2 or getattr(target, "sealed", False):
            raise RefusedError(f"its pickle sets items of a {kind_of(self.stack[-1])}")
        for key, value in zip(items[::2], _kept(items[1::2]), strict=True):
            target[key if type(key) is str else checked_key(key)] = value

    def load_reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(function) is not Global or type(args) is not tuple:
            raise RefusedError(f"its pickle calls a {kind_of(function)}")
        if function.name in CALLS:
            try:
                result = CALLS[function.name](*args)
            except (TypeError, ValueError):  # too many arguments, or too few
                result = None
            if result is None:
                raise RefusedError(f"it calls {function.name} with arguments that do not fit")
        elif function.name == stand_ins.MEMBER and len(args) == 2 and type(args[0]) in (Global, Foreign):
            result = self.stood_in(f"{args[0].name}.{args[1]}")  # a nested class, a method
        elif stand_ins.is_callable(function.name) and Storage not in map(type, args):
            result = {} if stand_ins.is_dict(function.name) else Foreign(function.name)
        else:
            raise RefusedError(f"it calls {function.name}")
        self.append(result)

    load_newobj = load_reduce

    def load_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is Ordered and type(state) is dict and set(state) <= {"_metadata"}:
            return  # versions of a state dict's modules
        if type(target) is not Foreign or target.name in self.found.containers:
            raise RefusedError(f"it changes the inside of a {kind_of(target)}")


def _kept(values: Sequence[Any]) -> Sequence[Any]:
    """Return ``values`` as a container keeps them: none of the names among them is a function."""
    for value in values:
        if type(value) is Global:
            checked_value(value)
    return values


def _check_depth(root: Any) -> None:
    """Raise where containers lie in containers for too many levels; each container is visited once."""
    level, seen = [root], set()
    for _ in range(MAX_DEPTH):
        inside: list[Any] = []
        for value in level:
            if id(value) not in seen and isinstance(value, (dict, list, tuple)):
                seen.add(id(value))
                inside.extend(value.values() if isinstance(value, dict) else value)
        if not inside:
            return
        level = inside
    raise RefusedError(_TOO_DEEP)


def _opcode_name(opcode: int) -> str:
    name = next((op.name for op in pickletools.opcodes if ord(op.code) == opcode), None)
    return f"the opcode {name}" if name else f"the byte {opcode:#04x}"


class _Opcodes(dict[int, Callable[[Any], None]]):
    def __missing__(self, opcode: int) -> Any:
        raise RefusedError(f"its pickle uses {_opcode_name(opcode)}, which plain data never needs")


def _handler(opcode: int) -> Callable[[Any], None]:
    load: Callable[[Any], None] = getattr(_Machine, _Unpickler.dispatch[opcode].__name__)
    return partial(_load_tuple, load) if opcode in _TUPLES else load


def _load_tuple(load: Callable[[Any], None], machine: _Machine) -> None:
    load(machine)
    _kept(machine.stack[-1])


_TUPLES = pickle.TUPLE + pickle.TUPLE1 + pickle.TUPLE2 + pickle.TUPLE3
_PLAIN = (
    "PROTO MARK STOP GLOBAL REDUCE NEWOBJ BUILD BINPERSID BINPUT LONG_BINPUT BINGET LONG_BINGET BININT BININT1 BININT2 "
    "LONG1 BINFLOAT BINUNICODE SHORT_BINSTRING NONE NEWTRUE NEWFALSE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE EMPTY_SET TUPLE "
    "TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS"
)
"""The opcodes that plain data and tensors need; each that ``torch.load(weights_only=True)`` knows, and no others."""

_Machine.dispatch = _Opcodes((opcode, _handler(opcode)) for name in _PLAIN.split() for opcode in getattr(pickle, name))
