"""Which devices there are, how the user names them, and their statistics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Protocol

import torch
from torch import Tensor

from lt_core import plugins
from lt_core.errors import ConfigError, ConfigTypeError
from lt_core.interface import Interface

__all__ = ["Accelerator", "Copies", "Cpu", "Graphs", "SupportsCopies", "SupportsGraphs"]


class Accelerator(Interface):
    """A kind of device; the default is the CPU, where a "device" is one process.

    A subclass overrides the members that differ and is found by an entry point in ``lt.accelerators``.

    Attributes:
        name: its name in ``Trainer(accelerator=...)``.
        device_type: torch's name of the device (``torch.device(device_type)``).
        priority: ``accelerator="auto"`` takes the available accelerator of the highest priority; the CPU has 0.
        auto_devices: how many devices ``devices="auto"`` takes; -1 for all.
        auto_strategy: the choice of ``strategy="auto"``; None for ``"single"`` on one device and ``"ddp"`` on several.
    """

    name: str = "cpu"
    device_type: str = "cpu"
    priority: int = 0
    auto_devices: int = 1
    auto_strategy: str | None = None

    def available(self) -> bool:
        """Return whether this machine has such a device. Must not initialise a driver in a process that will fork."""
        return True

    @classmethod
    def is_available(cls) -> bool:
        """Return :meth:`available` of the class."""
        return cls().available()

    @classmethod
    def auto_device_count(cls) -> int:
        """Return how many devices there are; of processes on a CPU, how many ``devices="auto"`` takes."""
        here = cls().count()
        return cls.auto_devices if here is None else here

    def unavailable_reason(self) -> str:
        """Return the reason why :meth:`available` is False, and a remedy, for the error message."""
        return ""

    def count(self) -> int | None:
        """Return how many devices can be used, or None where there is no limit (processes on a CPU)."""
        return None

    def one_for_each_process(self) -> bool:
        """Return whether somebody shows each process of a node only a device of its own, which is then number 0."""
        return False

    def parse_devices(self, devices: int | str | Sequence[int]) -> list[int]:
        """Turn the user's ``devices`` into indices, one for each process on this node.

        Args:
            devices: a count (``2``, ``"2"``), -1 for all, indices (``[0, 2]``, ``"0,2"``, ``"0,"``), or ``"auto"``.

        Raises:
            ConfigError: for counts below 1, repeated indices, or devices that are not there.
            ConfigTypeError: for anything that is none of these forms.
        """
        expected = "a count (2), -1 for all, indices ([0, 2] or '0,2'), or 'auto'"
        wanted: Any = devices.strip() if isinstance(devices, str) else devices
        if wanted == "auto":
            wanted = self.auto_devices
        elif isinstance(wanted, str):
            try:
                numbers = [int(part) for part in wanted.split(",") if part.strip()]
                wanted = numbers if "," in wanted else numbers[0]
            except (ValueError, IndexError):
                raise ConfigError(f"devices={devices!r}: expected {expected}.", code="LT113") from None
        listed = isinstance(wanted, Sequence)
        numbers = list(wanted) if listed else [wanted]
        if not all(isinstance(number, Integral) and not isinstance(number, bool) for number in numbers):
            raise ConfigTypeError(
                f"devices={devices!r} is a {type(devices).__name__}; expected {expected} for accelerator "
                f"{self.name!r}.",
                code="LT113",
            )
        if listed:
            return self._lt_check_indices(numbers, devices)
        available = self.count()
        if wanted == -1:
            return list(range(available if available is not None else 1))
        if wanted < 1:
            raise ConfigError(
                f"devices={devices!r}: expected {expected}. For no accelerator take accelerator='cpu'.", code="LT113"
            )
        if available is not None and wanted > available:
            raise ConfigError(
                f"devices={devices!r} asks for {wanted} {self.name} devices, but {available} "
                f"{'is' if available == 1 else 'are'} here. Take devices={available} or devices='auto'.",
                code="LT111",
            )
        return list(range(wanted))

    def torch_device(self, index: int) -> torch.device:
        """Return torch's device for an index from :meth:`parse_devices`."""
        return torch.device("cpu")

    def open(self, device: torch.device) -> None:
        """Make ``device`` the current one of this process, before anything is allocated on it."""

    def close(self) -> None:
        """Release caches."""

    def generator_state(self) -> Any | None:
        """Return the state of the current device's random generator: plain data or a CPU tensor; None where it is not
        in use.

        By default the device's functions in ``torch.<device_type>``, as of torch's own and of registered devices.
        """
        module = getattr(torch, self.device_type, None)
        read = getattr(module, "get_rng_state", None)
        in_use = getattr(module, "is_initialized", None) or getattr(module, "is_available", None)
        return read() if read is not None and (in_use is None or in_use()) else None

    def restore_generator(self, state: Any) -> None:
        """Restore a state of :meth:`generator_state`; without such a device, do nothing."""
        module = getattr(torch, self.device_type)
        if module.is_available():
            module.set_rng_state(state.cpu())

    def seed_generator(self, seed: int) -> None:
        """Seed the generator, where ``torch.manual_seed`` does not do it already."""

    def stats(self, device: torch.device) -> dict[str, float]:
        """Return readings of ``device`` by name, with the unit in the name: bytes, percent, degrees Celsius, watts."""
        return {}

    def _lt_check_indices(self, given: list[Any], devices: object) -> list[int]:
        indices, available = [int(index) for index in given], self.count()
        if not indices or min(indices) < 0:
            raise ConfigError(f"devices={devices!r}: expected at least one index, none below 0.", code="LT113")
        if len(set(indices)) != len(indices):
            raise ConfigError(f"devices={indices} names a device twice. Name each once.", code="LT112")
        missing = [i for i in indices if available is not None and i >= available]
        if missing:
            raise ConfigError(
                f"devices={indices}: {self.name} device {missing[0]} is not here; there "
                f"{'is' if available == 1 else 'are'} {available}, numbered from 0. Take indices below {available}, or "
                "a count.",
                code="LT111",
            )
        return indices


class Copies(Protocol):
    """Copies of tensors to one device, beside its computations; the next batch is fetched by it.

    Attributes:
        pinned: whether batches are to be made in pinned memory, from which copies do not block.
    """

    pinned: bool

    def begin(self, tensor: Tensor) -> Tensor:
        """Return ``tensor`` as it will be on the device after :meth:`wait`."""

    def wait(self) -> None:
        """Let later computations of the device wait for all copies that have begun."""

    def hand_over(self, tensor: Tensor) -> None:
        """Keep the memory of a copy until later computations of the device are done with it."""


class SupportsCopies(Protocol):
    """An accelerator that can copy beside the step: batches are then on the device before they are asked for."""

    def copies(self, device: torch.device) -> Copies:
        """Return the copies to ``device``."""


class Graphs(Protocol):
    """Records steps on one device, each done again by a single launch."""

    def warm_up(self, step: Callable[[], Any]) -> Any:
        """Do ``step`` in the ordinary way, as before and between captures; return its result."""

    def capture(self, step: Callable[[], Any]) -> tuple[Callable[[], object], Any]:
        """Record ``step`` without doing it; return its launch, and its result, which each launch fills again.

        Several captures may be launched in any order; a launch may overwrite the results of the others.
        """


class SupportsGraphs(Protocol):
    """An accelerator whose devices can record a training step (``Trainer(step="graphs")``)."""

    def graphs(self, device: torch.device) -> Graphs:
        """Return the recorder of steps on ``device``."""


class Cpu(Accelerator):
    """The processor, and the name for ``isinstance``; the base class works on it too."""


_opened: dict[str, Accelerator] = {}


def open_device(accelerator: Accelerator, device: torch.device) -> None:
    """Make ``device`` the current one of this process, whose random generator belongs to its state from now on."""
    accelerator.open(device)
    _opened[accelerator.device_type] = accelerator


def opened() -> dict[str, Accelerator]:
    """Return accelerators whose generators this process may draw from, by type of device: opened by runs,
    and torch's own.
    """
    if "torch_xla" in sys.modules and "xla" not in _opened:  # which torch does not know as an accelerator
        if (found := plugins.find("accelerators", "xla")) is not None:
            _opened["xla"] = found()
    own = torch.accelerator.current_accelerator()
    if own is None or own.type in _opened:
        return _opened
    torchs = Accelerator()
    torchs.device_type = own.type
    return {own.type: torchs, **_opened}
