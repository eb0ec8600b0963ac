"""Copies of a checkpoint's tensors in the CPU's memory, so that training may go on while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lt_core.files.plain_data import plain_tree

_WITH_STORAGE = ("cpu", "cuda", "mps", "xpu")


class HostCopies:
    """Copies trees of tensors into buffers that are kept and used again.

    A tensor that occurs twice is copied once, as is each view of a larger one: no more is written than is in the tree.
    """

    def __init__(self) -> None:
        self._buffers: list[Tensor] = []
        self._used = 0
        self._pins = False
        self._copies: dict[Any, Tensor] = {}
        self._devices: set[torch.device] = set()

    def take(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of ``tree`` on the CPU, complete when this returns. It lives until the next call.

        Raises:
            CheckpointError: for anything that is neither plain data nor a tensor.
        """
        self._used, self._copies = 0, {}
        try:
            # a hook of validation may save: buffers made in inference mode could not be written to outside of it
            with _few_threads(), torch.inference_mode(False), torch.no_grad():
                copy: dict[str, Any] = plain_tree(dict(tree), tensor=self._copy)
        finally:
            self._copies = {}
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
        view = _view(tensor)
        if view not in self._copies:
            self._copies[view] = self._into_buffer(_resolved(tensor))
        return self._copies[view]

    def _into_buffer(self, tensor: Tensor) -> Tensor:
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


def host_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``tree`` with its tensors on the CPU; CPU tensors are not copied, unless they waste a file's space.

    Raises:
        CheckpointError: for anything that is neither plain data nor a tensor.
    """
    views: dict[Any, Tensor] = {}
    devices: set[str] = set()

    def note(tensor: Tensor) -> Tensor:
        devices.add(tensor.device.type)
        if _has_storage(tensor):
            views.setdefault(_view(tensor), tensor)
        return tensor.detach()

    plain: dict[str, Any] = plain_tree(dict(tree), tensor=note)
    wasteful = _wasteful(views.values())
    if not wasteful and devices <= {"cpu"}:
        return plain
    moved: dict[Any, Tensor] = {}

    def move(tensor: Tensor) -> Tensor:
        if not _has_storage(tensor):
            return tensor.cpu()
        view = _view(tensor)
        if view not in moved:
            on_host = _resolved(tensor).cpu()
            moved[view] = on_host.clone() if view[0] in wasteful else on_host
        return moved[view]

    there: dict[str, Any] = plain_tree(plain, tensor=move)
    return there


def num_bytes(tree: Mapping[str, Any]) -> int:
    """Return the bytes that copies of all tensors in ``tree`` take, each counted once; of pinned memory torch takes
    the next power of two.
    """
    views: dict[Any, int] = {}

    def note(tensor: Tensor) -> Tensor:
        size = tensor.numel() * tensor.element_size()
        pinned = tensor.is_cuda and size
        views[_view(tensor) if _has_storage(tensor) else id(tensor)] = 1 << (size - 1).bit_length() if pinned else size
        return tensor

    plain_tree(dict(tree), tensor=note)
    return sum(views.values())


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


def _view(tensor: Tensor) -> tuple[Any, ...]:
    """Return a key that two tensors share if they are the same part of the same memory."""
    memory = (tensor.untyped_storage().data_ptr(), tensor.device)
    return (
        memory,
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def _resolved(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().resolve_neg()


def _wasteful(views: Any) -> set[Any]:
    """Return the memories of which the tree needs only a part; a file would hold them whole."""
    needed: dict[Any, int] = {}
    whole: dict[Any, int] = {}
    for tensor in views:
        memory = _view(tensor)[0]
        needed[memory] = needed.get(memory, 0) + tensor.numel() * tensor.element_size()
        whole[memory] = tensor.untyped_storage().nbytes()
    return {memory for memory, size in whole.items() if needed[memory] < size}
