"""Accelerators in Lightning's interface: lt's members call the methods that users write for Lightning."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

import torch

from lt_compat.lightning.trainer_views import Answers, Face
from lt_core import accelerator

_OF_LT = {
    "Accelerator": "lt_core.accelerator:Accelerator",
    "CPUAccelerator": "lt_core.accelerator:Cpu",
    "CUDAAccelerator": "lt_strategies.accelerators.cuda:Cuda",
    "MPSAccelerator": "lt_strategies.accelerators.mps:Mps",
    "XLAAccelerator": "lt_xla.device:Xla",
}


class Word(str):
    """A string that Lightning has as the result of a call."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


class _Parse:
    """``parse_devices``: Lightning's on the class, lt's on an object."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __get__(self, obj: Any, kind: type) -> Any:
        return self.own if obj is None else obj.indices


class Methods(accelerator.Accelerator):
    """lt's members by way of Lightning's, which a subclass overrides; by default these call lt's class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take over a subclass's ``name()`` and ``parse_devices``, which lt has under the same names."""
        super().__init_subclass__(**kwargs)
        own: Any = vars(cls)
        if isinstance(own.get("name"), staticmethod):
            cls.name = Word(own["name"].__func__())
        if isinstance(own.get("parse_devices"), staticmethod):
            cls.parse_devices = _Parse(own["parse_devices"].__func__)  # type: ignore[method-assign,assignment]

    def setup(self, trainer: Any) -> None:
        """Prepare for a run of this Trainer, when the device is open."""

    def setup_device(self, device: torch.device) -> None:
        """Make ``device`` the current one."""
        super().open(device)

    def teardown(self) -> None:
        """Release caches."""
        super().close()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """Return readings of a device."""
        return super().stats(torch.device(device))

    @classmethod
    def is_available(cls) -> bool:
        """Return whether this machine has such a device."""
        return super(Methods, cls()).available()

    @classmethod
    def get_parallel_devices(cls, devices: Any) -> list[torch.device]:
        """Return torch's devices for a count or indices."""
        return _parallel(cls(), devices)

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        """Register the class."""

    # ---- lt's members ------------------------------------------------------------------------------------------------

    trainer: Any = None
    _lt_devices: Any = None

    def available(self) -> bool:
        return self.is_available()

    def indices(self, devices: Any) -> list[int]:
        """Return indices for a Trainer's ``devices``, by Lightning's methods of the subclass."""
        asked = self.auto_device_count() if devices == "auto" else devices
        kind: Any = type(self)
        found = self.get_parallel_devices(kind.parse_devices(asked))
        self.device_type = found[0].type
        places = [each.index for each in found]
        by_index = None not in places and len({*places}) == len(places)  # else several processes share a device
        self._lt_devices = dict(zip(places if by_index else range(len(found)), found, strict=True))
        return [*self._lt_devices]

    def torch_device(self, index: int) -> torch.device:
        found: torch.device = self._lt_devices[index] if self._lt_devices else super().torch_device(index)
        return found

    def open(self, device: torch.device) -> None:
        self.setup_device(device)
        if self.trainer is not None:
            self.setup(self.trainer)

    def close(self) -> None:
        self.teardown()

    def stats(self, device: torch.device) -> dict[str, float]:
        return self.get_device_stats(device)


class AcceleratorFace(Face):
    """``trainer.accelerator``, where it is one of lt's own."""

    reads = {  # noqa: RUF012  (as in the base)
        "name": lambda part, trainer: Word(part.name),
        "get_device_stats": lambda part, trainer: part.stats,
        "get_parallel_devices": lambda part, trainer: partial(_parallel, part),
        "setup_device": lambda part, trainer: part.open,
        "teardown": lambda part, trainer: part.close,
    }


def _parallel(kind: accelerator.Accelerator, devices: Any) -> list[torch.device]:
    return [kind.torch_device(index) for index in (range(devices) if isinstance(devices, int) else devices)]


@cache
def _class(name: str) -> Any:
    module, _, attribute = _OF_LT[name].partition(":")
    base = getattr(import_module(module), attribute)

    def parse(devices: Any) -> Any:
        """Return the argument of ``get_parallel_devices``: a count on the CPU, indices elsewhere."""
        if name == "Accelerator":
            return devices
        indices = base().parse_devices(devices)
        return len(indices) if name == "CPUAccelerator" else indices

    members = {"of_lt": base, "name": Word(base.name), "parse_devices": _Parse(parse), "__module__": __name__}
    return Answers(name, (Methods, base), members)


def __getattr__(name: str) -> Any:
    """Make a class when it is first asked for."""
    if name in _OF_LT:
        return _class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
