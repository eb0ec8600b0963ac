"""The contents of a checkpoint: plain data and tensors, which any reader loads without running code.

Plain are None, bool, int, float, complex, str, bytes, list, tuple, set, dict, ``OrderedDict``, ``Counter``, tensors,
``torch.Size``, ``torch.dtype`` and ``torch.device``: exactly these types, as a subclass is written by the name of its
class and read by importing it.
"""

import codecs
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, SupportsIndex

import torch
from torch import Tensor, nn

from lt_core.errors import CheckpointError

__all__ = ["is_plain", "plain_tree"]

ATOMS: frozenset[type] = frozenset(
    {type(None), bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device}
)
"""Plain types that hold no other values."""

_NO_BYTES = ATOMS - {bytes}
"""Plain types of which every value stands for itself."""


class _NoBytes(bytes):
    """Empty bytes, pickled as other bytes are: the way python pickles them is none that ``weights_only`` reads."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return codecs.encode, ("", "latin1")


ATOMS |= {_NoBytes}

MAX_DEPTH = 200
"""Containers in containers; more means a cycle."""

_MAPPINGS = (dict, OrderedDict, Counter)
_REMEDIES = {
    "numpy": "float(x), int(x), x.tolist() or torch.as_tensor(x) makes plain data of it",
    "pathlib": "str(path) makes plain data of it",
    "enum": "its .name or .value is plain data",
    "torch": "its state_dict() is plain data",
}


def plain_tree(tree: Any, root: str = "checkpoint", *, tensor: Callable[[Tensor], Tensor] = Tensor.detach) -> Any:
    """Return ``tree`` in new containers.

    Args:
        tree: any nesting of containers.
        root: the name of ``tree`` in the error.
        tensor: converts each tensor. By default the new one shares the data, without graph, hooks
            and attributes, which are not data.

    Raises:
        CheckpointError: for anything that is not plain; names the keys that lead to it.
    """
    return Walk(root, tensor).visit(tree, ())


def is_plain(value: Any) -> bool:
    """Return whether ``value`` may stand in a checkpoint as it is."""
    try:
        plain_tree(value)
    except CheckpointError:
        return False
    return True


def key_path(root: str, keys: tuple[Any, ...]) -> str:
    """Return how one writes the way to a value: ``checkpoint["callbacks"][0]``."""
    return root + "".join(f"[{key!r}]" for key in keys)


class Walk:
    """One walk over a tree. A repeated object is visited once, so that it stays one object."""

    def __init__(self, root: str = "checkpoint", tensor: Callable[[Tensor], Tensor] | None = None) -> None:
        self.root, self.tensor = root, tensor
        self.done: dict[int, Any] = {}

    def visit(self, value: Any, keys: tuple[Any, ...]) -> Any:
        kind: Any = type(value)
        if kind in ATOMS:
            return value if value != b"" else _NoBytes()
        if id(value) in self.done:
            return self.done[id(value)]
        same: Any
        if kind is Tensor or kind is nn.Parameter:
            if value.is_meta:
                raise CheckpointError(
                    f"{key_path(self.root, keys)} is on the meta device: it has no data.", code="LT650"
                )
            same = value if self.tensor is None else self.tensor(value)
        elif len(keys) > MAX_DEPTH:
            at = key_path(self.root, keys[:6])
            raise CheckpointError(f"{at}... goes on for {MAX_DEPTH} levels: it contains itself.", code="LT650")
        elif kind in _MAPPINGS:
            rebuilt = {}
            for key, item in value.items():  # most of a checkpoint: plain values cost no call
                name = key if type(key) in _NO_BYTES else self.key(key, keys)
                rebuilt[name] = item if type(item) in _NO_BYTES else self.visit(item, (*keys, name))
            same = rebuilt if kind is dict else kind(rebuilt)
            if "_metadata" in getattr(value, "__dict__", ()):  # a state dict's versions of its modules
                same._metadata = self.visit(value._metadata, (*keys, "_metadata"))
        elif kind is list or kind is tuple:
            same = kind(i if type(i) in _NO_BYTES else self.visit(i, (*keys, n)) for n, i in enumerate(value))
        elif kind is set:
            same = {self.key(item, keys) for item in value}
        else:
            same = self.other(value, keys)
        self.done[id(value)] = same
        return same

    def key(self, key: Any, keys: tuple[Any, ...]) -> Any:
        if type(key) in ATOMS:
            return key if key != b"" else _NoBytes()
        if type(key) is tuple:
            return tuple(self.key(part, keys) for part in key)
        raise self.refusal(key, keys, what="a key or member")

    def other(self, value: Any, keys: tuple[Any, ...]) -> Any:
        """Return the plain form of a value of another type."""
        raise self.refusal(value, keys)

    def refusal(self, value: Any, keys: tuple[Any, ...], what: str = "a value") -> CheckpointError:
        kind = type(value)
        remedy = next(
            (text for base in kind.__mro__ if (text := _REMEDIES.get(base.__module__.partition(".")[0]))), None
        )
        return CheckpointError(
            f"{key_path(self.root, keys)} holds {what} of type {kind.__module__}.{kind.__qualname__}. A checkpoint is "
            "plain data and tensors, so that it loads without running code: save numbers, strings, lists, dicts or "
            f"tensors instead{f' ({remedy})' if remedy else ''}.",
            code="LT650",
        )
