"""Finds the first step with a loss or gradient that is not finite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lt_callbacks.arguments import choice, whole
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import LtError, warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["NaNGuard", "NonFiniteError"]

_NEVER = 1 << 62
"""A step that is never reached."""


class NonFiniteError(LtError, ArithmeticError):
    """A loss or gradient became NaN or infinite."""


class NaNGuard(Callback):
    """Watches losses, and gradients where asked for, and names the first optimizer step that was not finite.

    Nothing waits for the device between two checks: each step leaves one flag there. All ranks act together.

    Args:
        every_n_steps: optimizer steps between two checks; the end of an epoch is always one.
        gradients: watch the gradients too, and so name the parameter; costs one pass over them in each step. Where the
            loss is scaled (``"16-mixed"``) they may overflow, and such steps are skipped: none counts there.
        action: ``"raise"`` an error, ``"stop"`` training, or ``"warn"`` once.

    Attributes:
        first_step: the first optimizer step (from 0) that was not finite, or None.

    Raises:
        ConfigError: for wrong values.
        NonFiniteError: when a value is not finite, with ``action="raise"``.
    """

    @checks_arguments
    def __init__(self, every_n_steps: int = 50, gradients: bool = False, action: str = "raise") -> None:
        self.every_n_steps = whole("NaNGuard", "every_n_steps", every_n_steps, 1)
        self.gradients = gradients
        self.action = choice("NaNGuard", "action", action, ("raise", "stop", "warn"))
        self.first_step: int | None = None
        self._lt_first: Tensor | None = None
        self._lt_checked = 0
        self._lt_reported = False

    def state_dict(self) -> dict[str, Any]:
        return {"first_step": self.first_step, "told": self._lt_reported}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.first_step, self._lt_reported = state_dict["first_step"], bool(state_dict["told"])

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self.first_step, self._lt_reported = None, False

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_first = torch.full((), _NEVER, dtype=torch.int64, device=trainer.strategy.device)
        self._lt_checked = trainer.global_step

    def on_before_backward(self, trainer: TrainerAPI, pl_module: LightningModule, loss: Tensor) -> None:
        """Leave a flag for the loss."""
        self._lt_note(trainer.global_step, torch.isfinite(loss.detach()).all())

    def on_before_optimizer_step(self, trainer: TrainerAPI, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Leave a flag for the gradients, unscaled and not clipped."""
        if not self.gradients or trainer.precision_plugin.scales:
            return
        grads = [_values(p.grad) for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if grads:
            norms = torch.stack([norm.to(grads[0].device) for norm in torch._foreach_norm(grads)])
            self._lt_note(trainer.global_step, torch.isfinite(norms).all())

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Check the flag every few steps: reading it waits for the device."""
        if trainer.global_step - self._lt_checked >= self.every_n_steps:
            self._lt_check(trainer, pl_module)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_check(trainer, pl_module)

    def _lt_note(self, step: int, finite: Tensor) -> None:
        if self._lt_first is not None:
            bad_here = torch.where(finite.to(self._lt_first.device), _NEVER, step)
            self._lt_first = torch.minimum(self._lt_first, bad_here)

    def _lt_check(self, trainer: TrainerAPI, module: LightningModule) -> None:
        self._lt_checked = trainer.global_step
        if self._lt_first is None or self._lt_reported:
            return
        first = int(trainer.strategy.all_reduce(self._lt_first, "min"))
        if first == _NEVER:
            return
        self.first_step, self._lt_reported = first, True
        message = (
            f"The loss{' or a gradient' if self.gradients else ''} was not finite at optimizer step {self.first_step} "
            f"(epoch {trainer.current_epoch}). {_culprits(module)} Try a lower learning rate, gradient clipping, or "
            "another precision; detect_anomaly=True names the operation."
        )
        if self.action == "raise":
            raise NonFiniteError(message, code="LT351")
        warn(message, code="LT351")
        if self.action == "stop":
            trainer.should_stop = True


def _culprits(module: LightningModule) -> str:
    """Return which parameters and gradients are not finite now."""
    named = dict(module.named_parameters())
    weights = _not_finite((name, p.detach()) for name, p in named.items())
    grads = _not_finite((name, p.grad) for name, p in named.items() if p.grad is not None)
    broken = {"Parameters": weights, "Gradients of": grads}
    parts = [f"{what} {_list(names)} are not finite now." for what, names in broken.items() if names]
    return " ".join(parts) or "All parameters are still finite."


def _not_finite(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    return [name for name, tensor in tensors if not bool(torch.isfinite(_values(tensor)).all())]


def _values(tensor: Tensor) -> Tensor:
    """Return the numbers that a sparse tensor holds; any other tensor as it is."""
    return tensor._values() if tensor.is_sparse else tensor


def _list(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
