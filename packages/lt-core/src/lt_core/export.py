"""Exporting a module to other runtimes."""

from __future__ import annotations

import copy
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from lt_core.errors import ConfigError
from lt_core.transfer import move_to_device

if TYPE_CHECKING:
    from lt_core.module import LightningModule

__all__ = ["to_onnx", "to_torchscript"]


def to_onnx(
    self: LightningModule, file_path: str | PathLike[str] | None = None, input_sample: Any = None, **kwargs: Any
) -> Any:
    """Write the module as ONNX by ``torch.onnx.export``.

    Args:
        self: the module.
        file_path: where to write; None returns torch's program object.
        input_sample: an input of ``forward``; default ``example_input_array``.
        kwargs: passed to ``torch.onnx.export``.

    Raises:
        ConfigError: without an input sample.
    """
    sample = _sample(self, input_sample, "to_onnx")
    arguments = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    was_training = self.training
    self.eval()
    try:
        with torch.no_grad():
            return torch.onnx.export(self, arguments, None if file_path is None else str(file_path), **kwargs)
    finally:
        self.train(was_training)


def to_torchscript(
    self: LightningModule,
    file_path: str | PathLike[str] | None = None,
    method: str = "script",
    example_inputs: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the module as TorchScript, and write it where ``file_path`` says.

    Args:
        self: the module.
        file_path: where to write, or None.
        method: ``"script"`` or ``"trace"``.
        example_inputs: for tracing; default ``example_input_array``.
        kwargs: passed to ``torch.jit.script`` or ``torch.jit.trace``.

    Raises:
        ConfigError: for an unknown method, or tracing without inputs.
    """
    if method not in ("script", "trace"):
        raise ConfigError(f"to_torchscript(method={method!r}): expected 'script' or 'trace'.", code="LT203")
    module = _plain_copy(self)
    with torch.no_grad():
        if method == "script":
            script = torch.jit.script(module, **kwargs)
        else:
            script = torch.jit.trace(module, example_inputs=_sample(self, example_inputs, "to_torchscript"), **kwargs)  # type: ignore[no-untyped-call]
    if file_path is not None:
        torch.jit.save(script, str(file_path))
    return script


def _plain_copy(module: LightningModule) -> torch.nn.Module:
    """Return an eval-mode copy whose class has only ``forward``: TorchScript cannot read the hooks."""
    copied = copy.deepcopy(module).eval()
    kept = {"forward": type(module).forward, "__module__": type(module).__module__, "__doc__": None}
    annotations = {
        n: a for part in reversed(type(module).__mro__) for n, a in getattr(part, "__annotations__", {}).items()
    }
    mine = {n: a for n, a in annotations.items() if n in copied.__dict__}
    plain = type(type(module).__name__, (torch.nn.Module,), {**kept, "__annotations__": mine})
    bare: torch.nn.Module = object.__new__(plain)
    bare.__dict__.update({n: v for n, v in copied.__dict__.items() if not n.startswith("_hparams")})
    return bare


def _sample(module: LightningModule, given: Any, method: str) -> Any:
    sample = given if given is not None else module.example_input_array
    if sample is None:
        raise ConfigError(
            f"{method} needs an input: pass one, or set self.example_input_array in the module.", code="LT203"
        )
    return move_to_device(sample, module.device)
