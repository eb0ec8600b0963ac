"""Modules as ONNX and TorchScript files, for ``LightningModule.to_onnx`` and ``to_torchscript``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any

import torch

from lt_core.batch import move_to_device
from lt_core.errors import ConfigError, LtDeprecationWarning, warn
from lt_core.module import LightningModule
from lt_core.plugins import install_hint

__all__ = ["jit_unused_properties", "to_onnx", "to_torchscript"]


def to_onnx(
    module: LightningModule,
    file_path: str | PathLike[str] | IO[bytes] | None = None,
    input_sample: Any = None,
    **kwargs: Any,
) -> Any:
    """Write the module as ONNX by ``torch.onnx.export``.

    Args:
        module: the module.
        file_path: where to write, an open file too; None returns torch's program object.
        input_sample: an input of ``forward``; default ``example_input_array``.
        kwargs: passed to ``torch.onnx.export``.

    Raises:
        ConfigError: without an input sample, or a package that torch needs for it.
    """
    sample = _sample(module, input_sample, "to_onnx")
    arguments = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    target = os.fspath(file_path) if isinstance(file_path, PathLike) else file_path
    try:
        with _evaluating(module):
            return torch.onnx.export(module, arguments, target, **kwargs)  # type: ignore[arg-type]
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"to_onnx needs the package {error.name}, by which torch writes ONNX: {install_hint(error.name or 'onnx')}",
            code="LT180",
        ) from error


def to_torchscript(
    module: LightningModule,
    file_path: str | PathLike[str] | None = None,
    method: str = "script",
    example_inputs: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the module as TorchScript, and write it where ``file_path`` says.

    Args:
        module: the module.
        file_path: where to write, or None.
        method: ``"script"`` or ``"trace"``.
        example_inputs: for tracing; default ``example_input_array``.
        kwargs: passed to ``torch.jit.script`` or ``torch.jit.trace``.

    Raises:
        ConfigError: for an unknown method, or tracing without inputs.
    """
    if any(type(finder).__module__ == "lt_compat.install" for finder in sys.meta_path):
        warn(
            "`LightningModule.to_torchscript` has been deprecated, as TorchScript is in PyTorch: use "
            "`torch.export.export`.",
            code="LT249",
            category=LtDeprecationWarning,
        )
    if method not in ("script", "trace"):
        raise ConfigError(f"to_torchscript(method={method!r}): expected 'script' or 'trace'.", code="LT203")
    with _evaluating(module):
        if method == "script":
            script = torch.jit.script(module, **kwargs)
        else:
            script = torch.jit.trace(module, example_inputs=_sample(module, example_inputs, "to_torchscript"), **kwargs)  # type: ignore[no-untyped-call]
    if file_path is not None:
        torch.jit.save(script, str(file_path))
    return script


def jit_unused_properties(kind: type) -> list[str]:
    """Return the properties of a module's class that TorchScript cannot read, since they lead to a Trainer.

    They are lt's own, and properties of the user's classes that use one of them.
    """
    ours = {name for part in kind.__mro__ if part.__module__.startswith("lt_core.") for name in vars(part)}
    found = {name: value for part in reversed(kind.__mro__) for name, value in vars(part).items()}
    getters = {name: getattr(getattr(value, "fget", None), "__code__", None) for name, value in found.items()}
    return [n for n, code in getters.items() if n in ours or (code and not ours.isdisjoint(code.co_names))]


@contextmanager
def _evaluating(module: LightningModule) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def _sample(module: LightningModule, given: Any, method: str) -> Any:
    sample = given if given is not None else module.example_input_array
    if sample is None:
        raise ConfigError(
            f"{method} needs an input: pass one, or set self.example_input_array in the module.", code="LT203"
        )
    return move_to_device(sample, module.device)
