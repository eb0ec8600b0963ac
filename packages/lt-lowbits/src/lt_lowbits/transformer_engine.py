"""8-bit floats on NVIDIA's Hopper and later by Transformer Engine (``lt-lowbits[transformer-engine]``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from lt_core.batch import map_batch
from lt_core.errors import ConfigError, warn
from lt_core.plugins import install_hint
from lt_core.precision import Precision

__all__ = ["TransformerEngine", "float16_weights"]


class TransformerEngine(Precision):
    """Linear and LayerNorm layers by Transformer Engine, in 8-bit floats; all else in ``weights_dtype``.

    Args:
        weights_dtype: of parameters and of layers that have no 8-bit form.
        recipe: a ``transformer_engine.common.recipe.DelayedScaling``, or its arguments; None for its defaults.
        replace_layers: whether nn.Linear and nn.LayerNorm become Transformer Engine's; None: unless there are some
            already.

    Raises:
        ConfigError: when the library is not installed.
    """

    name = "transformer-engine"

    def __init__(
        self,
        weights_dtype: torch.dtype = torch.bfloat16,
        recipe: Mapping[str, Any] | Any | None = None,
        replace_layers: bool | None = None,
    ) -> None:
        if find_spec("transformer_engine") is None:
            raise ConfigError(
                "precision='transformer-engine' needs NVIDIA's Transformer Engine, which is not installed: "
                f"{install_hint('lt-lowbits[transformer-engine]')} (a GPU from Hopper on).",
                code="LT731",
            )
        self.weights_dtype, self.recipe, self.replace_layers = weights_dtype, recipe, replace_layers

    def open(self, device: torch.device) -> None:
        if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 9):
            raise ConfigError(
                f"precision='transformer-engine' computes in 8-bit floats, which needs an NVIDIA GPU of compute "
                f"capability 8.9 or more; the device is {device}. Take precision='bf16-mixed'.",
                code="LT731",
            )

    def convert_module(self, module: nn.Module) -> nn.Module:
        from transformer_engine import pytorch as te

        has_some = any("transformer_engine" in type(part).__module__ for part in module.modules())
        if self.replace_layers is True or (self.replace_layers is None and not has_some):
            _replace_layers(module, te)
        return module.to(self.weights_dtype)

    def init_context(self) -> AbstractContextManager[Any]:
        from lt_strategies.precision.dtypes import TruePrecision

        return TruePrecision("bf16-true" if self.weights_dtype is torch.bfloat16 else "16-true").init_context()

    def convert_input(self, batch: Any) -> Any:
        def convert(item: Any) -> Any:
            floating = isinstance(item, torch.Tensor) and item.is_floating_point()
            return item.to(self.weights_dtype) if floating else item

        return map_batch(convert, batch)

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        from transformer_engine import pytorch as te
        from transformer_engine.common.recipe import DelayedScaling

        recipe = DelayedScaling(**self.recipe) if isinstance(self.recipe, Mapping) else self.recipe

        def in_8_bits(*args: Any, **kwargs: Any) -> Any:
            with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
                return step(*args, **kwargs)

        return in_8_bits

    def leave_step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call`` made outside of the region of 8-bit floats."""
        from transformer_engine import pytorch as te

        def outside(*args: Any, **kwargs: Any) -> Any:
            with te.fp8_autocast(enabled=False):
                return call(*args, **kwargs)

        return outside


def _replace_layers(module: nn.Module, te: Any) -> None:
    for name, child in module.named_children():
        made = None
        if isinstance(child, nn.Linear):
            if child.in_features % 16 or child.out_features % 8:
                warn(
                    f"{name} ({child.in_features} to {child.out_features}) stays in 16 bits: 8-bit layers take a "
                    "multiple of 16 to a multiple of 8.",
                    code="LT732",
                )
                continue
            made = te.Linear(child.in_features, child.out_features, bias=child.bias is not None)
        elif isinstance(child, nn.LayerNorm) and len(child.normalized_shape) == 1 and child.bias is not None:
            made = te.LayerNorm(child.normalized_shape[0], eps=child.eps)
        if made is None:
            _replace_layers(child, te)
            continue
        made.load_state_dict(child.state_dict(), strict=False)
        setattr(module, name, made)


def float16_weights() -> TransformerEngine:
    """Return 8-bit layers with all else in float16."""
    return TransformerEngine(torch.float16)
