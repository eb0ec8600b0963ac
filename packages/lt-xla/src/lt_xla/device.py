"""TPUs, and whatever else torch-xla drives (``lt-xla[xla]``)."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from lt_core.accelerator import Accelerator
from lt_core.plugins import install_hint

__all__ = ["Xla"]


class Xla(Accelerator):
    """The devices of torch-xla; its runtime starts when the first one is asked for, not before."""

    name = "xla"
    device_type = "xla"
    priority = 200
    auto_devices = 1
    auto_strategy = "xla"

    def available(self) -> bool:
        return not self.unavailable_reason()

    def unavailable_reason(self) -> str:
        return _missing_library() or _missing_device()

    def count(self) -> int | None:
        if not self.available():
            return 0
        if os.environ.get("PJRT_DEVICE", "").upper() == "CPU":
            return int(os.environ.get("CPU_NUM_DEVICES", "1"))
        return len(_tpu_files()) or 1

    def torch_device(self, index: int) -> torch.device:
        return torch.device("xla", index)

    def open(self, device: torch.device) -> None:
        import torch_xla  # noqa: F401  from here on torch knows the device

    def generator_state(self) -> Any | None:
        runtime = _running()
        return None if runtime is None else int(runtime.get_rng_state())

    def restore_generator(self, state: Any) -> None:
        self.seed_generator(state)  # its whole state is a number

    def seed_generator(self, seed: int) -> None:
        if (runtime := _running()) is not None:
            runtime.set_rng_state(seed)

    def stats(self, device: torch.device) -> dict[str, float]:
        """Return memory in bytes, where the runtime reports it (not on the CPU)."""
        from torch_xla.core import xla_model

        try:
            memory = xla_model.get_memory_info(device)
        except RuntimeError:
            return {}
        return {f"memory_{name}": float(value) for name, value in memory.items() if isinstance(value, (int, float))}


def _running() -> Any | None:
    """Return torch_xla's ``xla_model`` where its runtime runs; asking it earlier would forbid a later launch."""
    torch_xla = sys.modules.get("torch_xla")
    if torch_xla is None or not torch_xla._XLAC._xla_runtime_is_initialized():
        return None
    return sys.modules.get("torch_xla.core.xla_model")


@lru_cache(maxsize=1)
def _missing_library() -> str:
    """Return why torch-xla cannot be imported, without importing it."""
    try:
        library = version("torch-xla")
    except PackageNotFoundError:
        return f"torch-xla is not installed: {install_hint('lt-xla[xla]')}"
    ours, theirs = (text.split(".")[:2] for text in (torch.__version__, library))
    if ours != theirs:
        return f"torch-xla {library} goes with torch {'.'.join(theirs)}, and {torch.__version__} is installed"
    return ""


def _missing_device() -> str:
    if "PJRT_DEVICE" in os.environ or "TPU_NAME" in os.environ or _tpu_files():
        return ""
    return "no TPU was found; PJRT_DEVICE=CPU tries it on this machine's CPU"


def _tpu_files() -> list[Path]:
    """Return the device files of this machine's TPU chips."""
    return [*Path("/dev").glob("accel[0-9]*"), *Path("/dev/vfio").glob("[0-9]*")]
