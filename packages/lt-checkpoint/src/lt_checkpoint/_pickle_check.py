"""The first wall before a checkpoint is read: a dry run of its pickle that imports, calls and allocates nothing.

A pickle is a program for a small stack machine. :func:`dry_run` runs it with stand-ins for all that it names: only the
opcodes that plain data and tensors need, only a short list of names, each called only with arguments that fit, every
tensor inside its storage. Everything else is refused; the second wall is ``torch.load(weights_only=True)``.

By hand: the second wall allocates as much as a few bytes ask for; Python's unpicklers import and call, and the one
in Python takes a text that is cut off for a whole one; ``pickletools.genops`` undoes escapes in names, so that it
reads another name than torch does.
"""

from __future__ import annotations

import contextlib
import pickle
import pickletools
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lt_checkpoint import _stand_ins as stand_ins
from lt_checkpoint._pickle_calls import (
    CALLS,
    DEVICE_TENSOR,
    OTHER,
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
    except (IndexError, struct.error) as error:
        raise CutOffError("its pickle is cut off or senseless") from error
    except _SENSELESS as error:
        raise RefusedError(f"its pickle is senseless ({type(error).__name__}: {error})") from error


def first_item(data: bytes, start: int = 0) -> tuple[Any, Any] | None:
    """Return the first key and value of the outermost dict, where ``data`` holds at least these in full.

    The rest may be cut off, or refused by :func:`dry_run`.
    """
    machine = _Machine(data, start)
    with contextlib.suppress(RefusedError, IndexError, struct.error, *_SENSELESS):
        root = machine.run().root
        return next(iter(root.items()), None) if isinstance(root, dict) else None
    levels = [*machine.marks, machine.stack]
    if not levels[0] or not isinstance(levels[0][0], dict):
        return None
    if levels[0][0]:
        return next(iter(levels[0][0].items()))
    items = levels[1] if len(levels) > 1 else []
    return (items[0], items[1]) if len(items) > 2 else None  # the third is there: the second is whole


_SENSELESS = (ValueError, TypeError, KeyError, RecursionError, AttributeError, OverflowError)


class _Machine:
    """The stack machine of pickle, over stand-ins."""

    __slots__ = ("at", "data", "found", "marks", "memo", "stack")

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.at = data, start
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.found = Findings()

    def run(self) -> Findings:
        data, handlers = self.data, _HANDLERS
        while (opcode := data[self.at]) != pickle.STOP[0]:
            self.at += 1
            handler = handlers.get(opcode)
            if handler is None:
                raise RefusedError(f"its pickle uses {_opcode_name(opcode)}, which plain data never needs")
            handler(self)
        self.found.root, self.found.end = self.stack.pop(), self.at + 1
        _check_depth(self.found.root)
        return self.found

    # ---- reading -----------------------------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) != count:
            raise CutOffError("its pickle is cut off")
        self.at += count
        return taken

    def number(self, form: str, count: int) -> Any:
        return struct.unpack(form, self.take(count))[0]

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise CutOffError("its pickle is cut off")
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marks.pop()
        return items

    # ---- opcodes -----------------------------------------------------------------------------------------------------

    def proto(self) -> None:
        if self.take(1)[0] != 2:
            raise RefusedError("its pickle is not of protocol 2, as torch.save writes it")

    def mark(self) -> None:
        if len(self.marks) > MAX_DEPTH:
            raise RefusedError(_TOO_DEEP)
        self.marks.append(self.stack)
        self.stack = []

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def pack(self, count: int) -> None:
        items = tuple(_kept(self.stack[-count:]))
        if len(items) != count:
            raise RefusedError("its pickle is senseless (a tuple of nothing)")
        self.stack[-count:] = [items]

    def pack_mark(self) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(_kept(items)))

    def append(self, items: list[Any]) -> None:
        target = self._contents(list)
        if type(target) is not list:
            raise RefusedError(f"its pickle appends to a {kind_of(target)}")
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

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def set_items(self, items: list[Any]) -> None:
        target = self._contents(dict)
        if type(target) not in (dict, Ordered) or len(items) % 2 or getattr(target, "sealed", False):
            raise RefusedError(f"its pickle sets items of a {kind_of(target)}")
        for key, value in zip(items[::2], _kept(items[1::2]), strict=True):
            target[key if type(key) is str else checked_key(key)] = value

    def look_up(self) -> None:
        module, name = self.line(), self.line()
        # protocol 2 writes Python 2's names
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        full = f"{module}.{name}"
        known = full in CALLS or is_plain_name(module, name)
        if full == DEVICE_TENSOR:
            self.found.device_tensors = True
        self.stack.append(Global(full) if known else self.stood_in(full))

    def stood_in(self, name: str) -> Global:
        """Note a name that a stand-in is needed for."""
        if not stand_ins.known(name):
            raise RefusedError(f"it names {name}, which is no plain data and is not imported")
        self.found.foreign.add(name)
        return Global(name)

    def call(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(function) is not Global or type(args) is not tuple:
            raise RefusedError(f"its pickle calls a {kind_of(function)}")
        if function.name in CALLS:
            result = CALLS[function.name](args)
            if result is None:
                raise RefusedError(f"it calls {function.name} with arguments that do not fit")
        elif function.name == stand_ins.MEMBER and len(args) == 2 and type(args[0]) in (Global, Foreign):
            result = self.stood_in(f"{args[0].name}.{args[1]}")  # a nested class, a method
        elif stand_ins.is_callable(function.name) and Storage not in map(type, args):
            result = {} if stand_ins.is_dict(function.name) else Foreign(function.name)
        else:
            raise RefusedError(f"it calls {function.name}")
        self.stack.append(result)

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is Ordered and type(state) is dict and set(state) <= {"_metadata"}:
            return  # versions of a state dict's modules
        if type(target) is not Foreign or target.name in self.found.containers:
            raise RefusedError(f"it changes the inside of a {kind_of(target)}")

    def storage(self) -> None:
        reference = self.stack.pop()
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
        self.stack.append(Storage(key, numel * item, item))


def _kept(values: list[Any]) -> list[Any]:
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


_HANDLERS: dict[int, Callable[[_Machine], None]] = {
    pickle.PROTO[0]: _Machine.proto,
    pickle.MARK[0]: _Machine.mark,
    pickle.GLOBAL[0]: _Machine.look_up,
    pickle.REDUCE[0]: _Machine.call,
    pickle.NEWOBJ[0]: _Machine.call,
    pickle.BUILD[0]: _Machine.build,
    pickle.BINPERSID[0]: _Machine.storage,
    pickle.BINPUT[0]: lambda m: m.put(m.take(1)[0]),
    pickle.LONG_BINPUT[0]: lambda m: m.put(m.number("<I", 4)),
    pickle.BINGET[0]: lambda m: m.get(m.take(1)[0]),
    pickle.LONG_BINGET[0]: lambda m: m.get(m.number("<I", 4)),
    pickle.BININT[0]: lambda m: m.stack.append(m.number("<i", 4)),
    pickle.BININT1[0]: lambda m: m.stack.append(m.take(1)[0]),
    pickle.BININT2[0]: lambda m: m.stack.append(m.number("<H", 2)),
    pickle.LONG1[0]: lambda m: m.stack.append(int.from_bytes(m.take(m.take(1)[0]), "little", signed=True)),
    pickle.BINFLOAT[0]: lambda m: m.stack.append(m.number(">d", 8)),
    pickle.BINUNICODE[0]: lambda m: m.stack.append(str(m.take(m.number("<I", 4)), "utf-8", "surrogatepass")),
    pickle.SHORT_BINSTRING[0]: lambda m: m.stack.append(m.take(m.take(1)[0])),
    pickle.NONE[0]: lambda m: m.stack.append(None),
    pickle.NEWTRUE[0]: lambda m: m.stack.append(True),
    pickle.NEWFALSE[0]: lambda m: m.stack.append(False),
    pickle.EMPTY_DICT[0]: lambda m: m.stack.append({}),
    pickle.EMPTY_LIST[0]: lambda m: m.stack.append([]),
    pickle.EMPTY_TUPLE[0]: lambda m: m.stack.append(()),
    pickle.EMPTY_SET[0]: lambda m: m.stack.append(OTHER),
    pickle.TUPLE[0]: _Machine.pack_mark,
    pickle.TUPLE1[0]: lambda m: m.pack(1),
    pickle.TUPLE2[0]: lambda m: m.pack(2),
    pickle.TUPLE3[0]: lambda m: m.pack(3),
    pickle.APPEND[0]: lambda m: m.append([m.stack.pop()]),
    pickle.APPENDS[0]: lambda m: m.append(m.pop_mark()),
    pickle.SETITEM[0]: _Machine.set_item,
    pickle.SETITEMS[0]: lambda m: m.set_items(m.pop_mark()),
}
"""The opcodes that plain data and tensors need; each that ``torch.load(weights_only=True)`` knows, and no others."""
