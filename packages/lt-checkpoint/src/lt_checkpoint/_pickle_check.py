"""The first wall before a checkpoint is read: a dry run of its pickle that imports, calls and allocates nothing.

A pickle is a program for a small stack machine. :func:`dry_run` runs it with stand-ins for all that it names: only the
opcodes that plain data and tensors need, only a short list of names, each called only with arguments that fit, every
tensor inside its storage. What is not on a list is refused; the second wall is ``torch.load(weights_only=True)``.

By hand, since the second wall allocates what a few bytes ask for; Python's unpicklers import and call, and the one
in Python takes a text that is cut off for a whole one; ``pickletools.genops`` undoes escapes in names, so that it
reads another name than torch does.
"""

from __future__ import annotations

import contextlib
import pickle
import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lt_checkpoint import _stand_ins as stand_ins

STORAGE_BYTES = {
    **dict.fromkeys(("BoolStorage", "ByteStorage", "CharStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("BFloat16Storage", "HalfStorage", "ShortStorage"), 2),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("ComplexFloatStorage", "DoubleStorage", "LongStorage"), 8),
    "ComplexDoubleStorage": 16,
}
"""Bytes of one element, by the name of a storage's class in ``torch``."""

DTYPE_BYTES = {
    **dict.fromkeys(("bool", "uint8", "int8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "complex32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}
"""Bytes of one element, by the name of a dtype in ``torch``."""


class RefusedError(Exception):
    """A pickle that is damaged, or does more than build plain data and tensors; the message says what."""


class CutOffError(RefusedError):
    """A pickle that does not come to its end."""


MAX_DEPTH = 1000
"""Containers in containers; what lt saves has at most 200."""

_TOO_DEEP = f"its pickle nests containers more than {MAX_DEPTH} deep"


class _Global(NamedTuple):
    """A name that the pickle looks up."""

    name: str


class _Storage(NamedTuple):
    """A tensor's data, to be read from the archive."""

    key: str
    num_bytes: int
    item_bytes: int


class _Made(NamedTuple):
    """What a call returns."""

    kind: str


class _Ordered(dict[Any, Any]):
    """An ``OrderedDict``: the one plain type that takes a state. A tensor's hooks are ``sealed``: they stay empty."""

    sealed = False


@dataclass(slots=True)
class Findings:
    """What a dry run has seen.

    Attributes:
        root: the outermost value; containers are real, tensors are not.
        storages: bytes of each storage that tensors point into, by its key in the archive.
        device_tensors: whether there are tensors of devices without storages (XLA), which torch reads to one device.
        foreign: names outside of plain data for which :mod:`lt_checkpoint._stand_ins` has a harmless stand-in.
        end: offset of the first byte after the pickle.
    """

    root: Any = None
    storages: dict[str, int] = field(default_factory=dict)
    device_tensors: bool = False
    foreign: set[str] = field(default_factory=set)
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

    What comes behind them may be cut off, or be what :func:`dry_run` refuses.
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
        items = tuple(map(_checked_value, self.stack[-count:]))
        if len(items) != count:
            raise RefusedError("its pickle is senseless (a tuple of nothing)")
        self.stack[-count:] = [items]

    def pack_mark(self) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(map(_checked_value, items)))

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise RefusedError(f"its pickle appends to a {_kind(target)}")
        target.extend(map(_checked_value, items))

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, _Ordered) or len(items) % 2 or getattr(target, "sealed", False):
            raise RefusedError(f"its pickle sets items of a {_kind(target)}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_checked_key(key)] = _checked_value(value)

    def look_up(self) -> None:
        module, name = self.line(), self.line()
        if module == "__builtin__":  # protocol 2 writes Python 2's names
            module, name = "builtins", {"long": "int", "unicode": "str"}.get(name, name)
        full = f"{module}.{name}"
        if full not in _CALLS and not _is_plain_name(module, name):
            if not stand_ins.known(full):
                raise RefusedError(f"it names {full}, which is no plain data and is not imported")
            self.found.foreign.add(full)
        if full == _DEVICE_TENSOR:
            self.found.device_tensors = True
        self.stack.append(_Global(full))

    def call(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(function) is not _Global or type(args) is not tuple:
            raise RefusedError(f"its pickle calls a {_kind(function)}")
        if function.name in _CALLS:
            result = _CALLS[function.name](args)
            if result is None:
                raise RefusedError(f"it calls {function.name} with arguments that do not fit")
        elif stand_ins.is_callable(function.name):
            result = {} if stand_ins.is_dict(function.name) else _FOREIGN
        else:
            raise RefusedError(f"it calls {function.name}")
        self.stack.append(result)

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is _Ordered and type(state) is dict and set(state) <= {"_metadata"}:
            return  # versions of a state dict's modules
        if target is not _FOREIGN:
            raise RefusedError(f"it changes the inside of a {_kind(target)}")

    def storage(self) -> None:
        reference = self.stack.pop()
        if type(reference) is not tuple or len(reference) not in (5, 6) or reference[0] != "storage":
            raise RefusedError("it points to something that is no tensor's data")
        _, kind, key, location, numel = reference[:5]
        name = kind.name.rpartition(".")[2] if type(kind) is _Global else ""
        item = STORAGE_BYTES.get(name, 0)
        fits = item and type(key) is str and type(location) is str and _is_count(numel)
        if not fits or reference[5:] not in ((), (None,)):
            raise RefusedError("it points to a tensor's data in a senseless way")
        if self.found.storages.setdefault(key, numel * item) != numel * item:
            raise RefusedError(f"it gives the tensor's data {key!r} two sizes")
        self.stack.append(_Storage(key, numel * item, item))


# ---- what may be named and called ------------------------------------------------------------------------------------


def _is_plain_name(module: str, name: str) -> bool:
    """Return whether the name stands for a dtype or a storage class, which are values and never called."""
    return (module == "torch" and (name in STORAGE_BYTES or name in DTYPE_BYTES or name in _LAYOUTS)) or (
        module == "torch.storage" and name == "UntypedStorage"
    )


_DEVICE_TENSOR = "torch._utils._rebuild_device_tensor_from_cpu_tensor"
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_TENSOR, _SIZE, _LAYOUT, _OTHER, _FOREIGN = map(_Made, ("tensor", "size", "layout", "value", "foreign"))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _are_counts(values: Any) -> bool:
    return type(values) is tuple and all(map(_is_count, values))


def _fits(storage: Any, offset: Any, size: Any, stride: Any, item_bytes: int) -> bool:
    """Return whether a tensor of this shape lies inside its storage."""
    if not (_is_count(offset) and _are_counts(size) and _are_counts(stride) and len(size) == len(stride)):
        return False
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else offset - 1
    return type(storage) is _Storage and (last + 1) * item_bytes <= storage.num_bytes


def _tensor_v2(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, [metadata])``."""
    storage, offset, size, stride, requires_grad, hooks, *metadata = args
    fits = type(storage) is _Storage and _fits(storage, offset, size, stride, storage.item_bytes)
    return _TENSOR if fits and _rest_fits(requires_grad, hooks, metadata) else None


def _tensor_v3(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, [metadata])``."""
    storage, offset, size, stride, requires_grad, hooks, dtype, *metadata = args
    item = DTYPE_BYTES.get(dtype.name.removeprefix("torch."), 0) if type(dtype) is _Global else 0
    fits = item > 0 and _fits(storage, offset, size, stride, item)
    return _TENSOR if fits and _rest_fits(requires_grad, hooks, metadata) else None


def _rest_fits(requires_grad: Any, hooks: Any, metadata: list[Any]) -> bool:
    if type(hooks) is _Ordered and not hooks:
        hooks.sealed = True
    elif hooks is not None:
        return False
    flags = all(m is None or (type(m) is dict and set(m) <= {"conj", "neg"}) for m in metadata)
    return type(requires_grad) is bool and flags and len(metadata) <= 1


def _tensor(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_tensor(storage, offset, size, stride)``."""
    storage, offset, size, stride = args
    item = storage.item_bytes if type(storage) is _Storage else 0
    return _TENSOR if item and _fits(storage, offset, size, stride, item) else None


def _parameter(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_parameter(tensor, requires_grad, hooks)``."""
    tensor, requires_grad, hooks = args
    return _TENSOR if tensor is _TENSOR and _rest_fits(requires_grad, hooks, []) else None


def _device_tensor(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_device_tensor_from_cpu_tensor(tensor, dtype, device, requires_grad)``, as for XLA."""
    tensor, dtype, device, requires_grad = args
    named = type(dtype) is _Global and dtype.name.removeprefix("torch.") in DTYPE_BYTES
    return _TENSOR if tensor is _TENSOR and named and type(device) is str and type(requires_grad) is bool else None


def _sparse(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_sparse_tensor(layout, (tensors, size, [coalesced]))``; torch checks the indices themselves."""
    layout, parts = args
    if layout != _LAYOUT or type(parts) is not tuple:
        return None
    return _TENSOR if all(part in (_TENSOR, _SIZE, None, True, False) for part in parts) else None


def _ordered(args: tuple[Any, ...]) -> Any:
    pairs = args[0] if args else []
    if len(args) > 1 or type(pairs) is not list:
        return None
    return _Ordered({_checked_key(key): _checked_value(value) for key, value in pairs})


def _counter(args: tuple[Any, ...]) -> Any:
    return dict(args[0]) if len(args) == 1 and type(args[0]) is dict else None


def _set(args: tuple[Any, ...]) -> Any:
    if len(args) != 1 or type(args[0]) is not list:
        return None
    return _OTHER if all(_checked_key(item) is item for item in args[0]) else None


def _encode(args: tuple[Any, ...]) -> Any:
    """Check ``_codecs.encode(text, "latin1")``, which is how protocol 2 writes bytes."""
    fits = len(args) == 2 and type(args[0]) is str and args[1] in ("latin1", "latin-1")
    return args[0].encode("latin-1") if fits else None


def _bytearray(args: tuple[Any, ...]) -> Any:
    return _OTHER if not args or (len(args) == 1 and type(args[0]) is bytes) or _encode(args) is not None else None


def _complex(args: tuple[Any, ...]) -> Any:
    return _OTHER if len(args) == 2 and all(type(part) is float for part in args) else None


def _size(args: tuple[Any, ...]) -> Any:
    return _SIZE if len(args) == 1 and _are_counts(args[0]) else None


def _device(args: tuple[Any, ...]) -> Any:
    return _OTHER if 1 <= len(args) <= 2 and type(args[0]) is str and all(map(_is_count, args[1:])) else None


def _layout(args: tuple[Any, ...]) -> Any:
    return _LAYOUT if len(args) == 1 and str(args[0]).removeprefix("torch.") in _LAYOUTS else None


_CALLS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    _DEVICE_TENSOR: _device_tensor,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch.serialization._get_layout": _layout,
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "builtins.set": _set,
    "builtins.complex": _complex,
    "builtins.bytearray": _bytearray,
    "_codecs.encode": _encode,
}
"""What may be called, and what checks the arguments: returns the result's stand-in, or None where they do not fit."""


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


def _checked_value(value: Any) -> Any:
    """Return what may be kept in a container: everything but functions, which a pickle may only call."""
    if type(value) is _Global and (value.name in _CALLS or stand_ins.is_callable(value.name)):
        raise RefusedError(f"it keeps {value.name} as if it were data")
    return value


def _checked_key(key: Any, depth: int = 0) -> Any:
    """Return a dict's key if it is an atom, a name or a shallow tuple of these: hashing is quick and runs no code."""
    if type(key) is tuple and depth < 3 and all(_checked_key(part, depth + 1) is part for part in key):
        return key
    if key is None or type(key) in (str, int, float, bool, bytes, _Global, _Made):
        return _checked_value(key)
    raise RefusedError(f"it uses a {_kind(key)} as a key")


def _kind(value: Any) -> str:
    if type(value) is _Global:
        return value.name
    return value.kind if type(value) is _Made else type(value).__name__.removeprefix("_")


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
    pickle.EMPTY_SET[0]: lambda m: m.stack.append(_OTHER),
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
