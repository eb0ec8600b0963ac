"""NVIDIA (and ROCm) GPUs."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from lt_core.accelerator import Accelerator
from lt_core.errors import ConfigError

__all__ = ["Cuda"]

_CHOOSING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")  # the last is Slurm's for AMD's


class Cuda(Accelerator):
    """GPUs as CUDA_VISIBLE_DEVICES shows them: index 0 is the first visible one.

    They are counted through the management library (NVML), not the CUDA runtime, so that this process may still fork.
    """

    name = "cuda"
    device_type = "cuda"
    priority = 100
    auto_devices = -1

    def available(self) -> bool:
        return torch.cuda.device_count() > 0

    def unavailable_reason(self) -> str:
        if torch.version.cuda is None and torch.version.hip is None:
            return "the installed torch was built without CUDA: install a CUDA build of torch"
        if os.environ.get("CUDA_VISIBLE_DEVICES") is not None and _installed() > 0:
            return f"{_visibility()}: unset it, or name GPUs that are here"
        return "no driver or no GPU was found: try nvidia-smi"

    def count(self) -> int | None:
        return torch.cuda.device_count()

    def one_for_each_process(self) -> bool:
        """Return whether one GPU is visible, since somebody chose it: Slurm's ``--gpus-per-task=1``, Ray.

        Where several processes are shown the same one, NCCL says so at their first collective.
        """
        return any(map(os.environ.get, _CHOOSING)) and self.count() == 1

    def torch_device(self, index: int) -> torch.device:
        return torch.device("cuda", index)

    def open(self, device: torch.device) -> None:
        torch.cuda.set_device(device)

    def close(self) -> None:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()

    def generator_state(self) -> Tensor | None:
        """Return the state of the current GPU's generator (uint8, shape ``(16,)``); where this process works on
        several, by a model that was spread by hand, the states of all up to the last (shape ``(GPUs, 16)``).
        """
        # asking for the state would make a context: hundreds of MB on the GPU, and no fork afterwards
        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return None
        in_use = torch._C._cuda_hasPrimaryContext  # type: ignore[attr-defined]  # has no public name
        used = [index for index in range(torch.cuda.device_count()) if in_use(index)]
        if len(used) < 2:
            return torch.cuda.get_rng_state()
        return torch.stack([torch.cuda.get_rng_state(index) for index in range(used[-1] + 1)])

    def restore_generator(self, state: Tensor) -> None:
        if state.dim() == 1:
            super().restore_generator(state)
            return
        for index, one in enumerate(state[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(one.cpu(), index)

    def copies(self, device: torch.device) -> SideStream:
        """Return copies on a separate stream."""
        return SideStream(device)

    def graphs(self, device: torch.device) -> CudaGraphs:
        """Return a capture of steps as CUDA graphs."""
        return CudaGraphs(device)

    def stats(self, device: torch.device) -> dict[str, float]:
        """Return memory of torch's allocator in bytes and, with ``nvidia-ml-py``, load, temperature and power."""
        memory = torch.cuda.memory_stats(device)
        counters = {
            "memory_allocated_bytes": "allocated_bytes.all.current",
            "memory_allocated_peak_bytes": "allocated_bytes.all.peak",
            "memory_reserved_bytes": "reserved_bytes.all.current",
            "alloc_retries": "num_alloc_retries",
        }
        found = {name: float(memory.get(counter, 0)) for name, counter in counters.items()}
        readings = (
            ("utilization_percent", torch.cuda.utilization),
            ("temperature_celsius", torch.cuda.temperature),
            ("power_watts", lambda where: torch.cuda.power_draw(where) / 1000),
        )
        for name, read in readings:
            with contextlib.suppress(Exception):  # no nvidia-ml-py, or a driver that does not report them
                found[name] = float(read(device))
        return found

    def _lt_check_indices(self, given: list[Any], devices: object) -> list[int]:
        available = torch.cuda.device_count()
        missing = [index for index in given if index >= available]
        if missing and _installed() > available:
            raise ConfigError(
                f"devices={given}: GPU {missing[0]} is not visible to this process. {_visibility()}; lt numbers the "
                f"visible ones from 0, as torch does. Take indices below {available}, or change CUDA_VISIBLE_DEVICES.",
                code="LT111",
            )
        return super()._lt_check_indices(given, devices)


class SideStream:
    """Copies to a GPU on a stream of their own.

    Sparse, nested, quantized and wrapper tensors are copied on the stream of the step: torch's
    allocator cannot know which streams use their memory (``record_stream`` has no kernel for them).
    """

    pinned = True

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def begin(self, tensor: Tensor) -> Tensor:
        if not _has_storage(tensor):
            return tensor.to(self._device)
        with torch.cuda.stream(self._stream):
            return tensor.to(self._device, non_blocking=True)

    def wait(self) -> None:
        torch.cuda.current_stream(self._device).wait_stream(self._stream)

    def hand_over(self, tensor: Tensor) -> None:
        if tensor.device == self._device and _has_storage(tensor):
            tensor.record_stream(torch.cuda.current_stream(self._device))


class CudaGraphs:
    """CUDA graphs of one run: captured on one stream, with one pool for the memory between their operations.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graphs = weakref.WeakSet[torch.cuda.CUDAGraph]()

    def warm_up(self, step: Callable[[], Any]) -> Any:
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            output = step()
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return output

    def capture(self, step: Callable[[], Any]) -> tuple[Callable[[], object], Any]:
        # A pool goes with its last graph, and torch does not take its name again while a gradient still lies in it.
        pools = (kept.pool() for kept in self._graphs)
        graph = torch.cuda.CUDAGraph()
        try:
            # other threads (a loader's that pins memory, the writer of checkpoints) may go on to allocate meanwhile
            with torch.cuda.graph(graph, next(pools, None), self._stream, capture_error_mode="thread_local"):
                output = step()
        except RuntimeError as error:
            error.add_note(
                "step='graphs' was capturing the step: nothing in it may read a value from the GPU (.item(), "
                ".cpu(), an if on a tensor) or copy to it from memory that is not pinned."
            )
            raise
        self._graphs.add(graph)
        return graph.replay, output


def _has_storage(tensor: Tensor) -> bool:
    """Return whether a tensor is one piece of memory of its own."""
    plain = tensor.layout is torch.strided and not (tensor.is_nested or tensor.is_quantized)
    return plain and not is_traceable_wrapper_subclass(tensor)


def _installed() -> int:
    """Return how many GPUs the machine has, visible or not; 0 where that is not known."""
    with contextlib.suppress(Exception):
        # device_count() heeds CUDA_VISIBLE_DEVICES, and torch has no public name for all GPUs of the machine
        return max(0, torch.cuda._raw_device_count_nvml())
    return 0


def _visibility() -> str:
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = torch.cuda._parse_visible_devices()
    names = ", ".join(str(item) for item in chosen) or "none"
    return f"CUDA_VISIBLE_DEVICES={shown!r} shows {names} of this machine's {_installed()} GPUs"
