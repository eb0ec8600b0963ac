"""The bytes of tensors that live at a time, while operations run on tensors without memory."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Fullest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the memory of tensors that operations make, until nobody holds it any more.

    Attributes:
        now: bytes that live.
        most: the most bytes that lived at a time.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._known = dict[int, int]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_leaves((args, kwargs))
        before = {tensor.untyped_storage()._cdata for tensor in given if isinstance(tensor, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in before and key not in self._known:
                    self._known[key] = 0
                    weakref.finalize(storage, self._gone, key).atexit = False
                if key in self._known:
                    self.now += size - self._known[key]
                    self._known[key] = size
        self.most = max(self.most, self.now)
        return out

    def _gone(self, key: int) -> None:
        self.now -= self._known.pop(key)
