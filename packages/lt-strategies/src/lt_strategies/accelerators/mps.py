"""Apple's GPUs."""

from __future__ import annotations

import platform

import torch

from lt_core.accelerator import Accelerator

__all__ = ["Mps"]


class Mps(Accelerator):
    """The one GPU of a Mac with Apple silicon."""

    name = "mps"
    device_type = "mps"
    priority = 50
    auto_devices = 1

    def available(self) -> bool:
        return torch.backends.mps.is_available()

    def unavailable_reason(self) -> str:
        if platform.system() != "Darwin":
            return "it is Apple's: this machine does not run macOS"
        if not torch.backends.mps.is_built():
            return "the installed torch was built without MPS"
        return "macOS 12.3 or newer and Apple silicon are needed"

    def count(self) -> int | None:
        return 1 if self.available() else 0

    def torch_device(self, index: int) -> torch.device:
        return torch.device("mps", 0)

    def close(self) -> None:
        torch.mps.empty_cache()

    def stats(self, device: torch.device) -> dict[str, float]:
        """Return memory in bytes: of torch's tensors, and of the driver."""
        return {
            "memory_allocated_bytes": float(torch.mps.current_allocated_memory()),
            "memory_driver_bytes": float(torch.mps.driver_allocated_memory()),
        }
