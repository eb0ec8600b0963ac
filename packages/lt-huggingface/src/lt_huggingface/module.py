"""A module around any model of transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from lt_core.errors import ConfigError, HookError
from lt_core.module import LightningModule

__all__ = ["TransformersModule"]

Schedule = Literal["linear", "cosine", "constant", "warmup_stable_decay"]


class TransformersModule(LightningModule):
    """Trains a model that computes its own loss: ``model(**batch).loss``, as models of transformers do.

    Logged are ``train_loss``, ``val_loss`` and ``test_loss``; metrics are yours to log in :meth:`on_output`. Where
    tokens have labels, means weigh each of them the same, over accumulated batches and ranks too, however they are
    padded. Packed documents (``position_ids`` that begin anew: ``collate_fn=lt.data.pack``) do not see each other.
    ``predict_step`` returns the logits. Checkpoints hold the weights of ``model`` and no code; to load one:
    ``TransformersModule.load_from_checkpoint(path, model=model)``.

    Args:
        model: the model, or one with peft's adapters. It is put into training mode, which ``from_pretrained`` leaves.
        lr: the highest learning rate.
        weight_decay: for parameters of two and more dimensions; biases and norms have none.
        warmup_steps: optimizer steps in which the rate rises from 0; a share of all where it is below 1.
        schedule: after the warmup: ``"linear"`` and ``"cosine"`` fall to 0 at the last step, ``"constant"`` stays, and
            ``"warmup_stable_decay"`` stays and falls to 0 in the last fifth of all steps.

    Raises:
        ConfigError: for a schedule that is none of these.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float = 5e-5,
        weight_decay: float = 0.01,
        warmup_steps: float = 0,
        schedule: Schedule = "linear",
    ) -> None:
        super().__init__()
        if schedule not in get_args(Schedule):
            raise ConfigError(
                f"TransformersModule(schedule={schedule!r}): expected {', '.join(map(repr, get_args(Schedule)))}.",
                code="LT930",
            )
        self.save_hyperparameters(ignore=["model"])
        self.model = model.train()

    def on_output(self, output: Any, batch: Mapping[str, Any], stage: str) -> None:
        """Look at the model's outputs, and log metrics; here nothing.

        Args:
            output: of the model: ``loss``, ``logits``...
            batch: the model's inputs.
            stage: ``"train"``, ``"val"`` or ``"test"``.
        """

    def forward(self, **inputs: Any) -> Any:
        """Return the model's output."""
        if self._is_causal() and "position_ids" in inputs:
            inputs.setdefault("use_cache", False)  # with a cache, transformers takes packed documents for a single one
        return self.model(**inputs)

    def training_step(self, batch: Mapping[str, Any], batch_idx: int) -> Tensor | dict[str, Tensor]:
        loss = self._lt_loss(batch, "train")
        tokens = self._lt_tokens(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss if tokens is None else {"loss": loss, "loss_weight": tokens}

    def validation_step(self, batch: Mapping[str, Any], batch_idx: int) -> None:
        self._lt_evaluate(batch, "val")

    def test_step(self, batch: Mapping[str, Any], batch_idx: int) -> None:
        self._lt_evaluate(batch, "test")

    def predict_step(self, batch: Mapping[str, Any], batch_idx: int) -> Any:
        output = self(**{name: value for name, value in batch.items() if name != "labels"})
        logits = getattr(output, "logits", None)
        return output if logits is None else logits

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim >= 2], "weight_decay": self.hparams["weight_decay"]},
            {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=self.hparams["lr"])
        total, warmup = self.trainer.estimated_stepping_batches or 1, self.hparams["warmup_steps"]
        if 0 < warmup < 1:
            warmup *= total
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: _factor(step, warmup, total, self.hparams["schedule"])
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _lt_loss(self, batch: Mapping[str, Any], stage: str) -> Tensor:
        if not isinstance(batch, Mapping):
            raise HookError(
                f"TransformersModule: expected a batch that is a dict of the model's arguments (input_ids, labels...); "
                f"received {type(batch).__name__}. Have collate_fn return one.",
                code="LT931",
            )
        output = self(**batch)
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None:
            raise HookError(
                f"TransformersModule: {type(self.model).__name__} returned no loss for a batch with "
                f"{', '.join(map(repr, batch))}. Models of transformers compute it where the batch has 'labels'.",
                code="LT932",
            )
        self.on_output(output, batch, stage)
        return loss  # type: ignore[no-any-return]

    def _lt_evaluate(self, batch: Mapping[str, Any], stage: str) -> None:
        loss, tokens = self._lt_loss(batch, stage), self._lt_tokens(batch)
        counted = None if tokens is None else int(tokens)
        if counted == 0:
            loss = torch.zeros_like(loss)  # the mean over no label is NaN; it weighs nothing
        self.log(f"{stage}_loss", loss, prog_bar=True, batch_size=counted)

    def _lt_tokens(self, batch: Mapping[str, Any]) -> Tensor | None:
        """Return how many labels the loss is a mean over, shape ``()``; None where it is one for each sample."""
        labels = batch.get("labels")
        if not isinstance(labels, Tensor) or labels.ndim < 2 or labels.is_floating_point():
            return None
        return (
            (labels[..., 1:] if self._is_causal() else labels) != -100
        ).sum()  # the label that counts nothing, as in transformers

    def _is_causal(self) -> bool:
        """Return whether the model predicts each label from the token before it, so that the first has none."""
        return getattr(getattr(self.model, "loss_function", None), "__name__", "") == "ForCausalLMLoss"


def _factor(step: int, warmup: float, total: float, schedule: str) -> float:
    """Return the part of the highest rate at an optimizer step."""
    if step < warmup:
        return step / warmup
    done = min(1.0, (step - warmup) / max(1.0, total - warmup))
    return {
        "linear": 1 - done,
        "cosine": (1 + math.cos(math.pi * done)) / 2,
        "constant": 1.0,
        "warmup_stable_decay": min(1.0, 5 * max(0.0, 1 - step / total)),
    }[schedule]
