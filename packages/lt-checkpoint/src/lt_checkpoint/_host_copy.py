"""Copies of a checkpoint's tensors in the CPU's memory, so that training may go on while they are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lt_core.files.plain_data import plain_tree

Tree = dict[str, Any]
"""Of a checkpoint: nested containers of tensors and plain data."""

_WITH_STORAGE = ("cpu", "cuda", "mps", "xpu")


class HostCopies:
    """Copies trees of tensors into buffers that are kept and used again.

    A tensor that occurs twice is copied once, as is each view of a larger one: no more is written than is in the tree.
    """

    def __init__(self) -> None:
        self._buffers: list[Tensor] = []
        self._used = 0
        self._pins = False
        self._devices: set[torch.device] = set()

    def take(self, tree: Mapping[str, Any]) -> Tree:
        """Return a copy of ``tree`` on the CPU, complete when this returns. It lives until the next call.

        Raises:
            CheckpointError: for anything that is neither plain data nor a tensor.
        """
        self._used = 0
        try:
            # a hook of validation may save: buffers made in inference mode could not be written to outside of it
            with _few_threads(), torch.inference_mode(False), torch.no_grad():
                copy: Tree = plain_tree(dict(tree), tensor=_once(self._copy))
        finally:
            for device in self._devices:
                torch.accelerator.synchronize(device)
            self._devices.clear()
        del self._buffers[self._used :]
        return copy

    def release(self) -> None:
        """Give the buffers' memory back, which torch would keep for the next ones where it is pinned."""
        self._buffers.clear()
        if self._pins:
            torch._C._host_emptyCache()  # has no public name

    def _copy(self, tensor: Tensor) -> Tensor:
        if not _has_storage(tensor):
            return tensor.detach().cpu().clone()
        tensor = _resolved(tensor)
        buffer = self._buffers[self._used] if self._used < len(self._buffers) else None
        if buffer is None or buffer.dtype != tensor.dtype or buffer.shape != tensor.shape:
            pins = tensor.is_cuda
            buffer = torch.empty_like(tensor, device="cpu", pin_memory=pins)
            self._pins = self._pins or pins
            self._buffers[self._used : self._used + 1] = [buffer]
        self._used += 1
        buffer.copy_(tensor, non_blocking=True)
        if tensor.device.type != "cpu":
            self._devices.add(tensor.device)
        return buffer


def host_tree(tree: Mapping[str, Any]) -> Tree:
    """Return ``tree`` with its tensors on the CPU; CPU tensors are not copied, unless they waste a file's space.

    Raises:
        CheckpointError: for anything that is neither plain data nor a tensor.
    """
    views: dict[Any, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        views.setdefault(_view(tensor), tensor)
        return tensor.detach()

    plain: Tree = plain_tree(dict(tree), tensor=note)
    wasteful = _wasteful(tensor for tensor in views.values() if _has_storage(tensor))
    if not wasteful and all(tensor.is_cpu for tensor in views.values()):
        return plain

    def move(tensor: Tensor) -> Tensor:
        if not _has_storage(tensor):
            return tensor.cpu()
        on_host = _resolved(tensor).cpu()
        return on_host.clone() if _memory(tensor) in wasteful else on_host

    there: Tree = plain_tree(plain, tensor=_once(move))
    return there


def num_bytes(tree: Mapping[str, Any]) -> int:
    """Return the bytes that copies of all tensors in ``tree`` take, each counted once; of pinned memory torch takes
    the next power of two.
    """
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        size = tensor.numel() * tensor.element_size()
        sizes.append(1 << (size - 1).bit_length() if tensor.is_cuda and size else size)
        return tensor

    plain_tree(dict(tree), tensor=_once(note))
    return sum(sizes)


def _once(act: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return ``act`` as called once for all tensors that are the same part of the same memory."""
    done: dict[Any, Tensor] = {}

    def once(tensor: Tensor) -> Tensor:
        view = _view(tensor)
        if view not in done:
            done[view] = act(tensor)
        return done[view]

    return once


@contextmanager
def _few_threads() -> Iterator[None]:
    """Return a context in which copies take a quarter of the cores: that fills the memory's width.

    Where loader workers keep all cores busy, a copy that waits for each core takes a hundred times longer.
    """
    before = torch.get_num_threads()
    few = min(before, max(1, (os.cpu_count() or 1) // 4))
    if few != before:
        torch.set_num_threads(few)
    try:
        yield
    finally:
        if few != before:
            torch.set_num_threads(before)


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type in _WITH_STORAGE


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.untyped_storage().data_ptr(), tensor.device


def _view(tensor: Tensor) -> Any:
    """Return a key that two tensors share if they are the same part of the same memory."""
    if not _has_storage(tensor):
        return id(tensor)
    layout = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
    return _memory(tensor), *layout, tensor.is_conj(), tensor.is_neg()


def _resolved(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().resolve_neg()


def _wasteful(views: Iterable[Tensor]) -> set[Any]:
    """Return the memories of which the tree needs only a part; a file would hold them whole."""
    spare: dict[Any, int] = {}
    for tensor in views:
        memory = _memory(tensor)
        spare.setdefault(memory, tensor.untyped_storage().nbytes())
        spare[memory] -= tensor.numel() * tensor.element_size()
    return {memory for memory, size in spare.items() if size > 0}
