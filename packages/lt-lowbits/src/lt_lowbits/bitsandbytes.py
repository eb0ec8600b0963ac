"""Quantised linear layers by bitsandbytes (``lt-lowbits[bitsandbytes]``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from lt_core.errors import ConfigError, did_you_mean
from lt_core.plugins import install_hint
from lt_core.precision import Precision
from lt_strategies.precision.dtypes import TruePrecision

__all__ = ["Bitsandbytes"]

_MODES = ("nf4", "nf4-dq", "fp4", "fp4-dq", "int8", "int8-training")


class Bitsandbytes(Precision):
    """Weights of nn.Linear layers in 4 or 8 bits; arithmetic and all else in ``dtype``.

    Quantised weights are not trained: all modes but ``"int8-training"`` are for frozen layers (adapters beside them).

    Args:
        mode: ``"nf4"``, ``"fp4"`` (``-dq``: their constants quantised too), ``"int8"`` or ``"int8-training"``.
        dtype: bfloat16, float16 or float32.
        ignore_modules: names (dotted) of modules whose layers stay as they are, such as ``{"lm_head"}``.

    Raises:
        ConfigError: when the library is not installed, or for an unknown mode.
    """

    name = "bitsandbytes"

    def __init__(
        self, mode: str = "nf4", dtype: torch.dtype = torch.bfloat16, ignore_modules: Iterable[str] = ()
    ) -> None:
        if mode not in _MODES:
            raise ConfigError(
                f"Bitsandbytes(mode={mode!r}): expected one of {', '.join(_MODES)}.{did_you_mean(mode, _MODES)}",
                code="LT733",
            )
        if find_spec("bitsandbytes") is None:
            raise ConfigError(
                "precision='bitsandbytes' needs the library of that name, which is not installed: "
                f"{install_hint('lt-lowbits[bitsandbytes]')}",
                code="LT734",
            )
        self.mode, self.dtype, self.ignore_modules = mode, dtype, frozenset(ignore_modules)
        names = {torch.bfloat16: "bf16-true", torch.float16: "16-true", torch.float32: "32-true"}
        self._lt_rest = TruePrecision(names[dtype])

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Return the module with its linear layers replaced; weights are quantised as they move to the GPU."""
        import bitsandbytes as bnb

        self._lt_rest.convert_module(module)
        self._lt_replace(module, "", bnb)
        return module

    def init_context(self) -> AbstractContextManager[Any]:
        return self._lt_rest.init_context()

    def convert_input(self, batch: Any) -> Any:
        return self._lt_rest.convert_input(batch)

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        return self._lt_rest.wrap_step(step)

    def leave_step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self._lt_rest.leave_step(call)

    def _lt_replace(self, module: nn.Module, prefix: str, bnb: Any) -> None:
        for name, child in module.named_children():
            path = f"{prefix}{name}"
            if path in self.ignore_modules or "bitsandbytes" in type(child).__module__:
                continue
            if isinstance(child, nn.Linear):
                setattr(module, name, self._lt_quantised(child, bnb))
            else:
                self._lt_replace(child, f"{path}.", bnb)

    def _lt_quantised(self, layer: nn.Linear, bnb: Any) -> nn.Module:
        sizes = (layer.in_features, layer.out_features, layer.bias is not None)
        weight = layer.weight.data
        made: Any
        if self.mode.startswith("int8"):
            keeps = self.mode == "int8-training"
            made = bnb.nn.Linear8bitLt(*sizes, has_fp16_weights=keeps, threshold=6.0)
            made.weight = bnb.nn.Int8Params(weight, requires_grad=keeps, has_fp16_weights=keeps)
        else:
            kind, squeeze = self.mode.removesuffix("-dq"), self.mode.endswith("-dq")
            made = bnb.nn.Linear4bit(*sizes, compute_dtype=self.dtype, quant_type=kind, compress_statistics=squeeze)
            made.weight = bnb.nn.Params4bit(
                weight, requires_grad=False, quant_type=kind, compress_statistics=squeeze, module=made
            )
        if layer.bias is not None:
            made.bias = layer.bias
        return made  # type: ignore[no-any-return]
