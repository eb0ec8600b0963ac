"""Names and calls allowed in a checkpoint's pickle, and stand-ins for their results in a dry run.

Only names that plain data and tensors need, calls whose arguments fit, tensors inside their storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from lt_checkpoint import _stand_ins as stand_ins

STORAGE_BYTES = {name: dtype.itemsize for dtype, name in torch.storage._dtype_to_storage_type_map().items()}
STORAGE_BYTES["UntypedStorage"] = 1
"""Bytes of one element, by the name of a storage's class in ``torch``."""

DTYPE_BYTES = {name: dtype.itemsize for name, dtype in vars(torch).items() if isinstance(dtype, torch.dtype)}
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


def _tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, flags: Any = None, *, item: int = 0
) -> Any:
    """Check ``_rebuild_tensor_v2``: whether a tensor of this shape lies inside its storage."""
    if type(storage) is not Storage or not (is_count(offset) and _are_counts(size) and _are_counts(stride)):
        return None
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else offset - 1
    fits = (last + 1) * (item or storage.item_bytes) <= storage.num_bytes
    fits = fits and (flags is None or (type(flags) is dict and set(flags) <= {"conj", "neg"}))
    return _parameter(_TENSOR, grad, hooks) if fits and len(size) == len(stride) else None


def _tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype: Any, *flags: Any
) -> Any:
    item = DTYPE_BYTES.get(dtype.name.removeprefix("torch."), 0) if type(dtype) is Global else 0
    return _tensor_v2(storage, offset, size, stride, grad, hooks, *flags, item=item) if item else None


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Any:
    return _tensor_v2(storage, offset, size, stride, False, None)


def _parameter(tensor: Any, grad: Any, hooks: Any) -> Any:
    if type(hooks) is Ordered and not hooks:
        hooks.sealed = True
    elif hooks is not None:
        return None
    return _TENSOR if tensor is _TENSOR and type(grad) is bool else None


def _device_tensor(tensor: Any, dtype: Any, device: Any, grad: Any) -> Any:
    """Check ``_rebuild_device_tensor_from_cpu_tensor``, as for XLA."""
    named = type(dtype) is Global and dtype.name.removeprefix("torch.") in DTYPE_BYTES
    return _parameter(tensor, grad, None) if named and type(device) is str else None


def _sparse(layout: Any, parts: Any) -> Any:
    """Check ``_rebuild_sparse_tensor(layout, (tensors, size, [coalesced]))``; torch checks the indices themselves."""
    fits = layout == _LAYOUT and type(parts) is tuple
    return _TENSOR if fits and all(part in (_TENSOR, _SIZE, None, True, False) for part in parts) else None


def _ordered(pairs: Any = ()) -> Any:
    fits = type(pairs) in (list, tuple)
    return Ordered({checked_key(key): checked_value(value) for key, value in pairs}) if fits else None


def _counter(counts: Any) -> Any:
    return dict(counts) if type(counts) is dict else None


def _set(items: Any) -> Any:
    return OTHER if type(items) is list and all(checked_key(item) is item for item in items) else None


def _encode(text: Any, encoding: Any) -> Any:
    """Check ``_codecs.encode(text, "latin1")``, which is how protocol 2 writes bytes."""
    return text.encode("latin-1") if type(text) is str and encoding in ("latin1", "latin-1") else None


def _bytearray(content: Any = b"", *encoding: Any) -> Any:
    return OTHER if (type(content) is bytes and not encoding) or _encode(content, *encoding) is not None else None


def _complex(real: Any, imag: Any) -> Any:
    return OTHER if type(real) is type(imag) is float else None


def _size(shape: Any) -> Any:
    return _SIZE if _are_counts(shape) else None


def _device(kind: Any, index: Any = 0) -> Any:
    return OTHER if type(kind) is str and is_count(index) else None


def _layout(name: Any) -> Any:
    return _LAYOUT if str(name).removeprefix("torch.") in _LAYOUTS else None


CALLS: dict[str, Callable[..., Any]] = {
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
