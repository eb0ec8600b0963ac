"""Training with linear layers that multiply in 8 bits, by torchao (``lt-lowbits[torchao]``)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import nn

from lt_core.errors import ConfigError, did_you_mean, warn
from lt_core.plugins import install_hint
from lt_strategies.precision.dtypes import Mixed

if TYPE_CHECKING:
    from lt_core.precision import Precision

__all__ = ["Float8", "Int8"]

_RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
_MULTIPLE = 16
"""Sizes that the hardware multiplies."""


class _EightBits(Mixed):
    """``"bf16-mixed"``, in which linear layers multiply in 8 bits; checkpoints are as of ``"bf16-mixed"``."""

    def __init__(self, ignore_modules: Iterable[str]) -> None:
        super().__init__(torch.bfloat16)
        if find_spec("torchao") is None:
            raise ConfigError(
                f"precision={self.name!r} needs the package torchao: {install_hint('lt-lowbits[torchao]')}.",
                code="LT687",
            )
        self.ignore_modules = frozenset(ignore_modules)

    def open(self, device: torch.device) -> None:
        super().open(device)
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < self.capability:
            needed = ".".join(map(str, self.capability))
            raise ConfigError(
                f"precision={self.name!r} needs a GPU of compute capability {needed} or more, which {device} is not. "
                "Take precision='bf16-mixed'.",
                code="LT688",
            )

    def _takes(self, layer: nn.Module, name: str) -> bool:
        """Return whether a layer is to multiply in 8 bits."""
        if type(layer) is not nn.Linear or name in self.ignore_modules:
            return False
        return layer.in_features % _MULTIPLE == 0 and layer.out_features % _MULTIPLE == 0

    def _check(self, module: nn.Module) -> None:
        linear = [name for name, part in module.named_modules() if type(part) is nn.Linear]
        if not any(self._takes(part, name) for name, part in module.named_modules()):
            warn(
                f"precision={self.name!r} changes nothing: of {len(linear)} linear layers none takes and gives "
                f"multiples of {_MULTIPLE} and is not left out by ignore_modules. All is computed as by 'bf16-mixed'.",
                code="LT689",
            )

    capability = (8, 0)


class Float8(_EightBits):
    """Linear layers multiply in float8, scaled anew in each step, forward and backward; all else as ``"bf16-mixed"``.

    Only layers whose sizes are multiples of 16. It is faster than bfloat16 for large layers, on GPUs of compute
    capability 8.9 and more, together with ``torch.compile``; on a CPU it is slow and for trying out.

    Args:
        recipe: of torchao: ``"tensorwise"``, ``"rowwise"`` or ``"rowwise_with_gw_hp"``.
        ignore_modules: names (dotted) of layers that stay as they are, such as ``{"lm_head"}``.

    Raises:
        ConfigError: for an unknown recipe; where torchao is not installed.
    """

    name = "float8"
    capability = (8, 9)

    def __init__(self, recipe: str = "tensorwise", ignore_modules: Iterable[str] = ()) -> None:
        if recipe not in _RECIPES:
            raise ConfigError(
                f"Float8(recipe={recipe!r}): expected one of {', '.join(map(repr, _RECIPES))}."
                f"{did_you_mean(recipe, _RECIPES)}",
                code="LT688",
            )
        super().__init__(ignore_modules)
        self.recipe = recipe

    def convert_module(self, module: nn.Module) -> nn.Module:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        self._check(module)
        config = Float8LinearConfig.from_recipe_name(self.recipe)
        convert_to_float8_training(module, module_filter_fn=self._takes, config=config)
        return module


class Int8(_EightBits):
    """Linear layers multiply in int8, scaled anew in each step, forward and backward; all else as ``"bf16-mixed"``.

    Only layers whose sizes are multiples of 16. It is a prototype of torchao's, for GPUs from Ampere on.

    Args:
        ignore_modules: names (dotted) of layers that stay as they are, such as ``{"lm_head"}``.

    Raises:
        ConfigError: where torchao is not installed.
    """

    name = "int8"

    def __init__(self, ignore_modules: Iterable[str] = ()) -> None:
        super().__init__(ignore_modules)

    def convert_module(self, module: nn.Module) -> nn.Module:
        from torchao import quantize_
        from torchao.prototype.quantized_training import Int8MixedPrecisionTrainingConfig

        self._check(module)
        quantize_(module, Int8MixedPrecisionTrainingConfig(module_swap=True), filter_fn=self._takes)
        return module


if TYPE_CHECKING:
    _: type[Precision] = Float8
