"""A module around any model of transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lt_core.errors import ConfigError, HookError
from lt_core.module import LightningModule

__all__ = ["TransformersModule"]

IGNORED = -100
"""The label that counts nothing, as in transformers."""


class TransformersModule(LightningModule):
    """Trains a model that computes its own loss: ``model(**batch).loss``, as models of transformers do.

    Logged are ``train_loss``, ``val_loss`` and ``test_loss``; metrics are yours to log in :meth:`on_output`. Where
    tokens have labels, means weigh each of them the same, over accumulated batches and ranks too, however they are
    padded. ``predict_step`` returns the logits. Checkpoints hold the weights of ``model`` and no code; to load one:
    ``TransformersModule.load_from_checkpoint(path, model=model)``.

    Args:
        model: the model, or one with peft's adapters. It is put into training mode, which ``from_pretrained`` leaves.
        lr: the highest learning rate.
        weight_decay: for parameters of two and more dimensions; biases and norms have none.
        warmup_steps: optimizer steps in which the rate rises from 0; a share of all where it is below 1.
        schedule: after the warmup: ``"linear"`` and ``"cosine"`` fall to 0 at the last step, ``"constant"`` stays.

    Raises:
        ConfigError: for a schedule that is none of these.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float = 5e-5,
        weight_decay: float = 0.01,
        warmup_steps: float = 0,
        schedule: Literal["linear", "cosine", "constant"] = "linear",
    ) -> None:
        super().__init__()
        if schedule not in _FALLS:
            raise ConfigError(
                f"TransformersModule(schedule={schedule!r}): expected {', '.join(map(repr, _FALLS))}.", code="LT930"
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
        return self.model(**inputs)

    def training_step(self, batch: Mapping[str, Any], batch_idx: int) -> Tensor | dict[str, Tensor]:
        loss = self._loss(batch, "train")
        tokens = self._tokens(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss if tokens is None else {"loss": loss, "loss_weight": tokens}

    def validation_step(self, batch: Mapping[str, Any], batch_idx: int) -> None:
        self._evaluate(batch, "val")

    def test_step(self, batch: Mapping[str, Any], batch_idx: int) -> None:
        self._evaluate(batch, "test")

    def predict_step(self, batch: Mapping[str, Any], batch_idx: int) -> Any:
        output = self.model(**{name: value for name, value in batch.items() if name != "labels"})
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
        total, warmup = self.trainer.estimated_stepping_batches, self.hparams["warmup_steps"]
        warmup = warmup if warmup >= 1 or not warmup else warmup * total
        factor = partial(_factor, warmup=warmup, total=total, fall=_FALLS[self.hparams["schedule"]])
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _loss(self, batch: Mapping[str, Any], stage: str) -> Tensor:
        if not isinstance(batch, Mapping):
            raise HookError(
                f"TransformersModule: expected a batch that is a dict of the model's arguments (input_ids, labels...); "
                f"received {type(batch).__name__}. Have collate_fn return one.",
                code="LT931",
            )
        output = self.model(**batch)
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None:
            raise HookError(
                f"TransformersModule: {type(self.model).__name__} returned no loss for a batch with "
                f"{', '.join(map(repr, batch))}. Models of transformers compute it where the batch has 'labels'.",
                code="LT932",
            )
        self.on_output(output, batch, stage)
        return loss  # type: ignore[no-any-return]

    def _evaluate(self, batch: Mapping[str, Any], stage: str) -> None:
        loss, tokens = self._loss(batch, stage), self._tokens(batch)
        counted = None if tokens is None else int(tokens)
        if counted == 0:
            loss = torch.zeros_like(loss)  # the mean over no label is NaN; it weighs nothing
        self.log(f"{stage}_loss", loss, prog_bar=True, batch_size=counted)

    def _tokens(self, batch: Mapping[str, Any]) -> Tensor | None:
        """Return how many labels the loss is a mean over, shape ``()``; None where it is one for each sample."""
        labels = batch.get("labels")
        if not isinstance(labels, Tensor) or labels.ndim < 2 or labels.is_floating_point():
            return None
        computed_by = getattr(getattr(self.model, "loss_function", None), "__name__", "")
        shifted = computed_by == "ForCausalLMLoss"  # where the first label is nobody's next token
        return ((labels[..., 1:] if shifted else labels) != IGNORED).sum()


def _linear(done: float) -> float:
    return 1 - done


def _cosine(done: float) -> float:
    return (1 + math.cos(math.pi * done)) / 2


def _constant(done: float) -> float:
    return 1.0


_FALLS = {"linear": _linear, "cosine": _cosine, "constant": _constant}
"""The part of the highest rate, by the share of the steps that is done since the warm-up."""


def _factor(step: int, warmup: float, total: float, fall: Any) -> float:
    if step < warmup:
        return step / warmup
    return float(fall(min(1.0, (step - warmup) / max(1.0, total - warmup))))
