"""Exporting a module to other runtimes."""

from __future__ import annotations

import copy
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from lt_core.batch import move_to_device
from lt_core.errors import ConfigError
from lt_core.hparams import HyperparametersMixin
from lt_core.plugins import install_hint

if TYPE_CHECKING:
    from lt_core._module_base import ModuleBase

__all__ = ["to_onnx", "to_torchscript"]


def to_onnx(
    self: ModuleBase, file_path: str | PathLike[str] | None = None, input_sample: Any = None, **kwargs: Any
) -> Any:
    """Write the module as ONNX by ``torch.onnx.export``.

    Args:
        self: the module.
        file_path: where to write; None returns torch's program object.
        input_sample: an input of ``forward``; default ``example_input_array``.
        kwargs: passed to ``torch.onnx.export``.

    Raises:
        ConfigError: without an input sample, or a package that torch needs for it.
    """
    sample = _sample(self, input_sample, "to_onnx")
    arguments = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    modes = [(part, part.training) for part in self.modules()]
    self.eval()
    try:
        with torch.no_grad():
            return torch.onnx.export(self, arguments, None if file_path is None else str(file_path), **kwargs)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"to_onnx needs the package {error.name}, by which torch writes ONNX: {install_hint(error.name or 'onnx')}",
            code="LT180",
        ) from error
    finally:
        for part, training in modes:
            part.training = training


def to_torchscript(
    self: ModuleBase,
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
    module = _without_a_run(self)
    with torch.no_grad():
        if method == "script":
            script = torch.jit.script(module, **kwargs)
        else:
            script = torch.jit.trace(module, example_inputs=_sample(self, example_inputs, "to_torchscript"), **kwargs)  # type: ignore[no-untyped-call]
    if file_path is not None:
        torch.jit.save(script, str(file_path))
    return script


def _without_a_run(module: ModuleBase) -> ModuleBase:
    """Return an eval-mode copy without properties, as TorchScript reads and compiles them all: ours want a run."""
    copied = copy.deepcopy(module).eval()
    for part in copied.modules():
        kind = type(part)
        if issubclass(kind, HyperparametersMixin):
            unused = [name for name in dir(kind) if isinstance(getattr(kind, name, None), property)]
            names = {"__module__": kind.__module__, "__jit_unused_properties__": unused}
            part.__class__ = type(kind.__name__, (kind,), names)
            part.__dict__["_trainer"] = object  # so that what a property reads of it is merely not there
    return copied


def _sample(module: ModuleBase, given: Any, method: str) -> Any:
    sample = given if given is not None else module.example_input_array
    if sample is None:
        raise ConfigError(
            f"{method} needs an input: pass one, or set self.example_input_array in the module.", code="LT203"
        )
    return move_to_device(sample, module.device)
