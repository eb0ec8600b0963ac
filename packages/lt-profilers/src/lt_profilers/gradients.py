"""Norms of gradients, for ``self.log_dict``."""

from __future__ import annotations

import torch
from torch import nn

from lt_core.errors import ConfigError

__all__ = ["grad_norm"]


def grad_norm(module: nn.Module, norm_type: float | int | str = 2, group_separator: str = "/") -> dict[str, float]:
    """Return the norm of each parameter's gradient, and of all together; for ``self.log_dict``.

    Call it on all ranks in ``on_before_optimizer_step``, where gradients are complete and unscaled. It waits for the
    device. In a pipeline the norms are of the layers that this rank holds.

    Args:
        module: whose parameters.
        norm_type: of the norm, above 0; ``"inf"`` for the largest element.
        group_separator: between the kind of norm and the parameter's name.

    Returns:
        ``grad_2.0_norm/<parameter>`` for each that has a gradient, and ``grad_2.0_norm_total``; nothing without any.

    Raises:
        ConfigError: for a norm of 0 or below.
    """
    order = float(norm_type)
    if order <= 0:
        raise ConfigError(f"grad_norm(norm_type={norm_type!r}): expected a number above 0, or 'inf'.", code="LT313")
    found = [(name, p.grad.detach().norm(order)) for name, p in module.named_parameters() if p.grad is not None]
    found = [(name, norm.full_tensor() if hasattr(norm, "full_tensor") else norm) for name, norm in found]  # of shards
    if not found:
        return {}
    total = torch.stack([norm.to(found[0][1].device) for _, norm in found]).norm(order)
    norms = {f"grad_{order}_norm{group_separator}{name}": norm.item() for name, norm in found}
    return {**norms, f"grad_{order}_norm_total": total.item()}
