"""``lt env``: a machine and its installed packages, for bug reports."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, version
from typing import Any

from lt_cli.command import CommandParser
from lt_cli.plugin_list import installed_plugins, plugin_lines

_BESIDES = (
    "torch",
    "torchvision",
    "torch-xla",
    "torchmetrics",
    "numpy",
    "jsonargparse",
    "tensorboard",
    "rich",
    "lightning",
)
"""Packages whose version often matters, beside ours and plug-ins' packages."""

_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "PJRT_DEVICE",
    "OMP_NUM_THREADS",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "SLURM_JOB_ID",
)
"""Variables that change where a run happens."""


def report() -> dict[str, Any]:
    """Return the report as plain data.

    Keys: ``python``, ``platform``, ``cpus`` (usable by this process), ``packages`` (name to version), ``devices``
    (accelerator to its report), ``variables`` (of the environment), ``plugins`` (a list of :class:`Plugin` as dicts).
    """
    plugins = installed_plugins()
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": _packages({plugin.package for plugin in plugins}),
        "devices": _devices(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "plugins": [plugin._asdict() for plugin in plugins],
    }


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt env", description="Versions, devices and plug-ins, for a bug report.")
    made.add_argument("--json", action="store_true", help="as JSON")
    return made


def main(words: Sequence[str]) -> int:
    """Print the report; return the exit status."""
    if parser().parse_args(words).json:
        print(json.dumps(report(), indent=2))
        return 0
    found = report()
    print(f"Python    {found['python']} on {found['platform']}, {found['cpus']} CPUs ({sys.executable})")
    _print_table("Packages", found["packages"])
    _print_table("Devices", found["devices"])
    if found["variables"]:
        _print_table("Variables", found["variables"])
    print("Plug-ins")
    for line in plugin_lines(installed_plugins()):
        print(f"  {line}")
    return 0


def _print_table(title: str, rows: dict[str, str]) -> None:
    width = max(map(len, rows), default=0)
    print(title)
    for name, value in rows.items():
        print(f"  {name:{width}}  {value}")


def _packages(bring_plugins: set[str]) -> dict[str, str]:
    ours = {name for d in distributions() if (name := d.metadata["Name"]) and (name == "lt" or name.startswith("lt-"))}
    return {name: _version(name) for name in [*sorted(ours | bring_plugins), *_BESIDES] if _version(name)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _devices() -> dict[str, str]:
    """Return each installed accelerator's report on this machine, or the reason why it has none."""
    kinds: dict[str, list[str]] = {}
    for plugin in installed_plugins():
        if plugin.group == "accelerators":
            kinds.setdefault(plugin.origin, []).append(plugin.name)
    return {"/".join(names): _said_by(origin) for origin, names in kinds.items()}


def _said_by(origin: str) -> str:
    module, _, name = origin.partition(":")
    try:
        return _availability(getattr(import_module(module), name)())
    except Exception as error:  # such a report is for broken installations
        return f"cannot be asked: {type(error).__name__}: {error}"


def _availability(accelerator: Any) -> str:
    if not accelerator.available():
        return f"none: {accelerator.unavailable_reason() or 'not on this machine'}"
    count = accelerator.count()
    if accelerator.device_type == "cuda":
        import torch

        names = [torch.cuda.get_device_name(index) for index in range(count or 0)]
        return f"{count}: {', '.join(names)}"
    return "yes" if count is None else str(count)
