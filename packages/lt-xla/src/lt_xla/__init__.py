"""TPUs and whatever else torch-xla drives: the device, and strategies with one process or with one for each device.

``Trainer(accelerator="tpu")``, ``strategy="xla"``, ``"xla_spmd"``, ``"xla_launch"``; import a class to give it
arguments: ``Trainer(strategy=XLA(steps_per_execution=8))``. Names load when they are used.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "XLA": ".spmd",
    "XLAProcesses": ".processes",
    "XLASPMD": ".spmd",
    "Xla": ".device",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
