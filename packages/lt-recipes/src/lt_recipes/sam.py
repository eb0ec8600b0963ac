"""Sharpness-aware minimization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

__all__ = ["SAM"]


class SAM(Optimizer):
    """Steps by the gradient at the worst point near the weights, which leads to flat minima.

    Reference: Foret et al., "Sharpness-Aware Minimization for Efficiently Improving Generalization",
    https://arxiv.org/abs/2010.01412.

    Each step runs ``training_step`` twice on the batch; both of them log. Its state is the optimizer's
    own, so that checkpoints fit runs without it.

    Args:
        optimizer: takes the step.
        rho: how far from the weights to look, in units of the weights: the length of the step up.

    Example::

        def configure_optimizers(self):
            return SAM(torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9), rho=0.05)
    """

    def __init__(self, optimizer: Optimizer, rho: float = 0.05) -> None:
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.optimizer, self.rho = optimizer, rho
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Take a step; ``closure`` computes loss and gradients anew."""
        with torch.enable_grad():
            loss = closure()
        params = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        gradients = [p.grad for p in params if p.grad is not None]
        before = [p.clone() for p in params]
        scale = self.rho / (get_total_norm(gradients) + 1e-12)
        for p, gradient in zip(params, gradients, strict=True):
            p.add_(gradient * scale)
        with torch.enable_grad():
            closure()
        for p, weights in zip(params, before, strict=True):
            p.copy_(weights)
        self.optimizer.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        self.param_groups: list[dict[str, Any]] = self.optimizer.param_groups
        self.state: Any = self.optimizer.state
