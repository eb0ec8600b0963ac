"""Exporting a module to other runtimes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from types import FunctionType
from typing import IO, Any

import torch

from lt_core._bases.module import ModuleBase
from lt_core.batch import move_to_device
from lt_core.errors import ConfigError
from lt_core.plugins import install_hint


def to_onnx(
    self: ModuleBase,
    file_path: str | PathLike[str] | IO[bytes] | None = None,
    input_sample: Any = None,
    **kwargs: Any,
) -> Any:
    """Write the module as ONNX by ``torch.onnx.export``.

    Args:
        self: the module.
        file_path: where to write, an open file too; None returns torch's program object.
        input_sample: an input of ``forward``; default ``example_input_array``.
        kwargs: passed to ``torch.onnx.export``.

    Raises:
        ConfigError: without an input sample, or a package that torch needs for it.
    """
    sample = _sample(self, input_sample, "to_onnx")
    arguments = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    target = os.fspath(file_path) if isinstance(file_path, PathLike) else file_path
    try:
        with _evaluating(self):
            return torch.onnx.export(self, arguments, target, **kwargs)  # type: ignore[arg-type]
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"to_onnx needs the package {error.name}, by which torch writes ONNX: {install_hint(error.name or 'onnx')}",
            code="LT180",
        ) from error


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
    with _evaluating(self):
        if method == "script":
            script = torch.jit.script(self, **kwargs)
        else:
            script = torch.jit.trace(self, example_inputs=_sample(self, example_inputs, "to_torchscript"), **kwargs)  # type: ignore[no-untyped-call]
    if file_path is not None:
        torch.jit.save(script, str(file_path))
    return script


class TrainersOwn:
    """``__jit_unused_properties__``: the properties that TorchScript cannot read, since they lead to a Trainer.

    They are lt's own, and those of the user's classes that use one of them.
    """

    def __get__(self, module: object, kind: type) -> list[str]:
        base = next(part for part in kind.__mro__ if part.__module__ == "lt_core.module")
        ours = {name for part in base.__mro__ if part.__module__.startswith("lt_core.") for name in vars(part)}
        found = {name: value for part in reversed(kind.__mro__) for name, value in vars(part).items()}
        return [name for name, value in found.items() if name in ours or not ours.isdisjoint(_names_in(value))]


def read_by_torch_jit() -> bool:
    """Return whether torch.jit is going through the names of a class: what has no value just then must not be there."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in ("torch.jit._recursive", "torch._jit_internal"):
            return True
    return False


def _names_in(value: object) -> Iterable[str]:
    getter = value.fget if isinstance(value, property) else None
    return getter.__code__.co_names if isinstance(getter, FunctionType) else ()


@contextmanager
def _evaluating(module: ModuleBase) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def _sample(module: ModuleBase, given: Any, method: str) -> Any:
    sample = given if given is not None else module.example_input_array
    if sample is None:
        raise ConfigError(
            f"{method} needs an input: pass one, or set self.example_input_array in the module.", code="LT203"
        )
    return move_to_device(sample, module.device)
