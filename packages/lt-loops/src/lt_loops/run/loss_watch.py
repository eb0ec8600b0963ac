"""Watches the losses of a fit: one that is not finite, and batches that have none."""

import cmath
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import HookError, LtError, warn
from lt_loops.run.job import Context, Owner
from lt_loops.run.training import Training

_FIRST_BATCHES = 20
"""Batches without a loss at the start of training after which a warning says so."""
_SAID = -1
"""In place of a number of steps: it was said that none was done."""


class LossWatch(Owner):
    """Reports, once, the first loss that is not finite, and training that has no loss at all."""

    def __init__(self, context: Context, training: Training) -> None:
        super().__init__(context)
        self._training, self._reported = training, False
        self._finite_at: int | None = None  # the optimizer step at which the loss was last found finite
        self._steps: int | None = None  # the steps with which this epoch began, where that is known
        self._missing = 0  # batches with which this epoch began that had no loss, on this rank

    def look(self, output: Any) -> None:
        """Look at the loss of a step that is looked at anyway (when a log is due).

        Raises:
            LtError: with ``detect_anomaly``, for a loss that is not finite.
        """
        loss = output.get("loss") if isinstance(output, Mapping) else output
        position = self._position
        if self._reported or not isinstance(loss, Tensor):
            return
        # a single number without torch's kernels, whose code takes a MB
        if cmath.isfinite(loss.item()) if loss.numel() == 1 else bool(torch.isfinite(loss.detach()).all()):
            self._finite_at = position.step
            return
        self._reported = True
        since = f"; it was last seen finite at step {self._finite_at}"
        message = (
            f"The training loss is {loss.detach().float().mean().item()} at optimizer step {position.step} (epoch "
            f"{position.epoch}, batch {position.batch - 1}){'' if self._finite_at is None else since}; "
            f"{self._first_bad()}. Try a lower learning rate, gradient_clip_val, or look for a division by zero or "
            "log(0)"
        )
        if self._settings.detect_anomaly:
            raise LtError(f"{message}.", code="LT341")
        warn(f"{message}; Trainer(detect_anomaly=True) stops at the first such step.", code="LT341")

    def describe_anomaly(self) -> str:
        """Return where a backward pass met a number that is not finite, as torch's anomaly detection found it."""
        position = self._position
        return (
            f"this was at optimizer step {position.step} (epoch {position.epoch}, batch {position.batch}); "
            f"{self._first_bad()}."
        )

    def _first_bad(self) -> str:
        for name, parameter in self._module.named_parameters():
            if not bool(torch.isfinite(parameter.detach()).all()):
                return f"the first parameter that is not finite is {name!r}"
        return "all parameters are still finite"

    # ---- no loss at all ----------------------------------------------------------------------------------------------

    def begin_epoch(self) -> None:
        self._missing = 0
        if self._steps != _SAID:
            self._steps = self._position.global_step

    def missing(self) -> None:
        """Note that this batch came without a loss; warn once where none of the first batches had one.

        Only a batch without a loss comes here, so that others cost nothing. The count stays behind the position for
        good once a batch had a loss, and in an epoch that a resume continues.
        """
        position = self._position
        if self._missing != position.batch:
            return
        self._missing += 1
        if self._missing == _FIRST_BATCHES and not position.epoch and self._training.trains_on_returned_loss:
            warn(
                self._no_loss_in(f"the first {_FIRST_BATCHES} batches"), code="LT225", about=self._module.training_step
            )

    @property
    def had_loss(self) -> bool:
        """Whether a batch of this epoch had a loss on this rank, or may yet have one."""
        position = self._position
        return not position.exhausted or self._missing != position.batch or not position.batch

    def check_epoch(self, had_loss: bool, *, only_warns: bool) -> None:
        """Refuse an epoch in which no batch on any rank had a loss, or only warn of it: nothing was trained.

        Raises:
            HookError: unless the module says that it is meant.
        """
        position = self._position
        if not self._training.trains_on_returned_loss:
            self._check_steps()
            return
        if had_loss:
            return
        message = self._no_loss_in(f"any of the {position.batch} batches of epoch {position.epoch}")
        if not only_warns:
            raise HookError(message, code="LT225")
        if position.epoch or position.batch < _FIRST_BATCHES:
            warn(message, code="LT225", about=self._module.training_step)

    def _check_steps(self) -> None:
        """Warn, once, of an epoch of manual optimization in which no optimizer was stepped."""
        position, module, training = self._position, self._module, self._training
        manual = not (module.automatic_optimization or module.trains_without_loss) and training.optimizers
        if manual and position.batch and position.global_step == self._steps:
            self._steps = _SAID
            warn(
                f"{type(module).__name__} has automatic_optimization = False, and no optimizer of self.optimizers() "
                f"was stepped in the {position.batch} batches of epoch {position.epoch}: no step counts, and probably "
                "no weight was trained. Call opt.zero_grad(), self.manual_backward(loss) and opt.step() in "
                "training_step, with opt = self.optimizers(); where this is meant, set trains_without_loss = True in "
                "the module.",
                code="LT225",
                about=module.training_step,
            )

    def _no_loss_in(self, batches: str) -> str:
        return (
            f"{type(self._module).__name__}.training_step returned no loss in {batches}, so no weight was trained. Is "
            "`return loss` missing? If this is intended, set trains_without_loss = True in the module; to call "
            "backward and the optimizers yourself, automatic_optimization = False."
        )
