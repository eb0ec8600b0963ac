"""Names and calls allowed in a checkpoint's pickle, and stand-ins for their results in a dry run.

Only names that plain data and tensors need, calls whose arguments fit, tensors inside their storage.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """A pickle that is damaged, or does more than build plain data and tensors."""


class Global(NamedTuple):
    """A name that the pickle looks up."""

    name: str


class Storage(NamedTuple):
    """A tensor's data, to be read from the archive."""

    key: str
    num_bytes: int
    item_bytes: int


class Made(NamedTuple):
    """Result of a call."""

    kind: str


class Foreign(NamedTuple):
    """An object of a class that has a stand-in."""

    name: str


class Ordered(dict[Any, Any]):
    """An ``OrderedDict``: the one plain type that takes a state. A tensor's hooks are ``sealed``: they stay empty."""

    sealed = False


def is_plain_name(module: str, name: str) -> bool:
    """Return whether the name stands for a dtype or a storage class, which are values and never called."""
    return (module == "torch" and (name in STORAGE_BYTES or name in DTYPE_BYTES or name in _LAYOUTS)) or (
        module == "torch.storage" and name == "UntypedStorage"
    )


DEVICE_TENSOR = "torch._utils._rebuild_device_tensor_from_cpu_tensor"
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_TENSOR, _SIZE, _LAYOUT, OTHER = map(Made, ("tensor", "size", "layout", "value"))


def is_count(value: Any) -> bool:
    """Return whether a value is a size or an offset that a file can have."""
    return type(value) is int and 0 <= value < 2**62


def _are_counts(values: Any) -> bool:
    return type(values) is tuple and all(map(is_count, values))


def _fits(storage: Any, offset: Any, size: Any, stride: Any, item_bytes: int) -> bool:
    """Return whether a tensor of this shape lies inside its storage."""
    if not (is_count(offset) and _are_counts(size) and _are_counts(stride) and len(size) == len(stride)):
        return False
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else offset - 1
    return type(storage) is Storage and (last + 1) * item_bytes <= storage.num_bytes


def _tensor_v2(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, [metadata])``."""
    storage, offset, size, stride, requires_grad, hooks, *metadata = args
    fits = type(storage) is Storage and _fits(storage, offset, size, stride, storage.item_bytes)
    return _TENSOR if fits and _rest_fits(requires_grad, hooks, metadata) else None


def _tensor_v3(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, [metadata])``."""
    storage, offset, size, stride, requires_grad, hooks, dtype, *metadata = args
    item = DTYPE_BYTES.get(dtype.name.removeprefix("torch."), 0) if type(dtype) is Global else 0
    fits = item > 0 and _fits(storage, offset, size, stride, item)
    return _TENSOR if fits and _rest_fits(requires_grad, hooks, metadata) else None


def _rest_fits(requires_grad: Any, hooks: Any, metadata: list[Any]) -> bool:
    if type(hooks) is Ordered and not hooks:
        hooks.sealed = True
    elif hooks is not None:
        return False
    flags = all(m is None or (type(m) is dict and set(m) <= {"conj", "neg"}) for m in metadata)
    return type(requires_grad) is bool and flags and len(metadata) <= 1


def _tensor(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_tensor(storage, offset, size, stride)``."""
    storage, offset, size, stride = args
    item = storage.item_bytes if type(storage) is Storage else 0
    return _TENSOR if item and _fits(storage, offset, size, stride, item) else None


def _parameter(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_parameter(tensor, requires_grad, hooks)``."""
    tensor, requires_grad, hooks = args
    return _TENSOR if tensor is _TENSOR and _rest_fits(requires_grad, hooks, []) else None


def _device_tensor(args: tuple[Any, ...]) -> Any:
    """Check ``_rebuild_device_tensor_from_cpu_tensor(tensor, dtype, device, requires_grad)``, as for XLA."""
    tensor, dtype, device, requires_grad = args
    named = type(dtype) is Global and dtype.name.removeprefix("torch.") in DTYPE_BYTES
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
    return Ordered({checked_key(key): checked_value(value) for key, value in pairs})


def _counter(args: tuple[Any, ...]) -> Any:
    return dict(args[0]) if len(args) == 1 and type(args[0]) is dict else None


def _set(args: tuple[Any, ...]) -> Any:
    if len(args) != 1 or type(args[0]) is not list:
        return None
    return OTHER if all(checked_key(item) is item for item in args[0]) else None


def _encode(args: tuple[Any, ...]) -> Any:
    """Check ``_codecs.encode(text, "latin1")``, which is how protocol 2 writes bytes."""
    fits = len(args) == 2 and type(args[0]) is str and args[1] in ("latin1", "latin-1")
    return args[0].encode("latin-1") if fits else None


def _bytearray(args: tuple[Any, ...]) -> Any:
    return OTHER if not args or (len(args) == 1 and type(args[0]) is bytes) or _encode(args) is not None else None


def _complex(args: tuple[Any, ...]) -> Any:
    return OTHER if len(args) == 2 and all(type(part) is float for part in args) else None


def _size(args: tuple[Any, ...]) -> Any:
    return _SIZE if len(args) == 1 and _are_counts(args[0]) else None


def _device(args: tuple[Any, ...]) -> Any:
    return OTHER if 1 <= len(args) <= 2 and type(args[0]) is str and all(map(is_count, args[1:])) else None


def _layout(args: tuple[Any, ...]) -> Any:
    return _LAYOUT if len(args) == 1 and str(args[0]).removeprefix("torch.") in _LAYOUTS else None


CALLS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    DEVICE_TENSOR: _device_tensor,
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
"""Check of each call's arguments: returns the result's stand-in, or None if they do not fit."""


# ---- values in containers --------------------------------------------------------------------------------------------


def checked_value(value: Any) -> Any:
    """Return ``value`` unless it is a function, which a pickle may call and not keep."""
    if type(value) is Global and (value.name in CALLS or not stand_ins.may_be_kept(value.name)):
        raise RefusedError(f"it keeps {value.name} as if it were data")
    return value


def checked_key(key: Any, depth: int = 0) -> Any:
    """Return a dict's key if it is an atom, a name or a shallow tuple of these: hashing is quick and runs no code."""
    if type(key) is tuple and depth < 3 and all(checked_key(part, depth + 1) is part for part in key):
        return key
    if key is None or type(key) in (str, int, float, bool, bytes, Global, Made, Foreign):
        return checked_value(key)
    raise RefusedError(f"it uses a {kind_of(key)} as a key")


def kind_of(value: Any) -> str:
    """Return the name of a value's kind, for errors."""
    if type(value) in (Global, Foreign):
        return str(value.name)
    return value.kind if type(value) is Made else type(value).__name__.removeprefix("_")
