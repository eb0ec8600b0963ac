"""Lightning's names of strategies that are lt's with an argument; pyproject.toml lists them as entry points."""

from __future__ import annotations

from typing import Any

from lt_core import plugins
from lt_core.strategy import SingleDevice

__all__ = ["single_device"]


def single_device() -> SingleDevice:
    """Return one device in this process."""
    return SingleDevice()


def fsdp_cpu_offload() -> Any:
    """Return FSDP whose parameters are on the CPU outside of the step."""
    return plugins.load("strategies", "fsdp")(cpu_offload=True)


def ddp_spawn_find_unused_parameters_true() -> Any:
    """Return DDP in spawned processes that looks for unused parameters in each step."""
    return plugins.load("strategies", "ddp")(launcher="spawn", find_unused_parameters=True)


def ddp_fork_find_unused_parameters_true() -> Any:
    """Return DDP in forked processes that looks for unused parameters in each step."""
    return plugins.load("strategies", "ddp")(launcher="fork", find_unused_parameters=True)


def ddp_spawn_find_unused_parameters_false() -> Any:
    """Return DDP in spawned processes."""
    return plugins.load("strategies", "ddp_spawn")()


def ddp_fork_find_unused_parameters_false() -> Any:
    """Return DDP in forked processes."""
    return plugins.load("strategies", "ddp_fork")()


def single_xla() -> Any:
    """Return XLA, on as many devices as the Trainer is asked for."""
    return plugins.load("strategies", "xla")()
