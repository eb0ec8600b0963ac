"""How many floating-point operations a second a chip can do at best, for the share that a run uses of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["available_flops", "measure_flops"]

_TERA = 1e12

# Dense operations a second from the makers' data sheets: 32 bits, TF32, 16 bits; longer names first.
_CHIPS: tuple[tuple[str, float, float, float], ...] = (
    ("b200", 75, 1100, 2250),
    ("h200 nvl", 60, 418, 835),
    ("h200", 67, 494, 989),
    ("h100 nvl", 60, 418, 835),
    ("h100 pcie", 51, 378, 756),
    ("h100", 67, 494, 989),
    ("a100", 19.5, 156, 312),
    ("a10g", 31.5, 35, 70),
    ("a10", 31.2, 62.5, 125),
    ("a6000", 38.7, 77.4, 154.8),
    ("l40s", 91.6, 183, 362),
    ("l40", 90.5, 90.5, 181),
    ("l4", 30.3, 60, 121),
    ("v100-sxm", 15.7, 15.7, 125),
    ("v100", 14, 14, 112),
    ("t4", 8.1, 8.1, 65),
    ("rtx 4090", 82.6, 82.6, 165.2),
    ("rtx 4080", 48.7, 48.7, 97.5),
    ("rtx 3090", 35.6, 35.6, 71),
    ("rtx 3080", 29.8, 29.8, 59.5),
)


def available_flops(device: torch.device, precision: str) -> float | None:
    """Return the chip's floating-point operations a second for matrix products, or None where it is not known.

    Args:
        device: a CUDA device; others are not known.
        precision: of the Trainer: ``"32-true"``, ``"bf16-mixed"``...
    """
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device).lower()
    for chip, full, tf32, half in _CHIPS:
        if chip in name:
            if precision.startswith(("16", "bf16", "transformer-engine")):
                return half * _TERA
            return (full if torch.get_float32_matmul_precision() == "highest" else tf32) * _TERA
    return None


def measure_flops(
    model: nn.Module,
    forward_fn: Callable[[], Any],
    loss_fn: Callable[[Any], Tensor] | None = None,
    display: bool = False,
) -> int:
    """Return how many floating-point operations a forward pass takes, with the backward pass where a loss is given.

    On the meta device nothing is computed::

        with torch.device("meta"):
            model, x = Net(), torch.randn(32, 784)
        flops = measure_flops(model, lambda: model(x), lambda out: out.sum())

    Args:
        model: to measure.
        forward_fn: runs the model.
        loss_fn: makes a scalar of the output of ``forward_fn``.
        display: print a table by layer.
    """
    with FlopCounterMode(display=display) as counter:
        out = forward_fn()
        if loss_fn is not None:
            loss_fn(out).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())
