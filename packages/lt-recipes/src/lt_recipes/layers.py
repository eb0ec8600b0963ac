"""Learning rates by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from lt_core.errors import ConfigError

__all__ = ["layerwise_lr"]


def layerwise_lr(module: nn.Module, layers: Sequence[str], lr: float, decay: float) -> list[dict[str, Any]]:
    """Return parameter groups whose learning rate falls from the last layer to the first.

    Reference: Howard and Ruder, "Universal Language Model Fine-tuning for Text Classification",
    https://arxiv.org/abs/1801.06146, which has a decay of 1/2.6.

    Args:
        module: the owner of the parameters; parameters without gradients are left out.
        layers: names of its parts, from the input to the output (``["embed", "blocks.0", "blocks.1", "head"]``). A
            parameter belongs to the longest of them that its name begins with.
        lr: of the last layer.
        decay: the ratio of a layer's rate to the next one's.

    Raises:
        ConfigError: for a parameter of no layer, or a layer without a parameter.

    Example::

        def configure_optimizers(self):
            return torch.optim.AdamW(layerwise_lr(self, ["embed", "blocks.0", "blocks.1", "head"], lr=1e-3, decay=0.8))
    """
    found: dict[str, list[nn.Parameter]] = {layer: [] for layer in layers}
    for name, parameter in module.named_parameters():
        owners = [layer for layer in layers if f"{name}.".startswith(f"{layer}.")]
        if not owners and parameter.requires_grad:
            raise ConfigError(
                f"layerwise_lr: the parameter {name!r} belongs to none of the layers {list(layers)}. Name its layer "
                "too, or set its requires_grad to False.",
                code="LT672",
            )
        if parameter.requires_grad:
            found[max(owners, key=len)].append(parameter)
    empty = [layer for layer in layers if not found[layer]]
    if empty:
        raise ConfigError(f"layerwise_lr: no trained parameter belongs to the layer {empty[0]!r}.", code="LT672")
    rates = [lr * decay**distance for distance in reversed(range(len(layers)))]
    return [{"params": found[layer], "lr": rate} for layer, rate in zip(layers, rates, strict=True)]
