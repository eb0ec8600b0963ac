"""A model of transformers in a Trainer: its loss, your metric, and its own files in the end.

A tiny BERT learns which sequences hold more small numbers than large ones, so that nothing is downloaded; with your own
model the ten lines are the same. Run it with ``uv run --group examples examples/text/huggingface.py``.
"""

# nox needs transformers
# nox: --max-epochs 1

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt_huggingface import SavePretrained, TransformersModule


class Classifier(TransformersModule):
    """Logs an accuracy too."""

    def on_output(self, output: Any, batch: Mapping[str, Tensor], stage: str) -> None:
        if stage != "train":
            self.log(f"{stage}_accuracy", (output.logits.argmax(-1) == batch["labels"]).float().mean(), prog_bar=True)


def rows(count: int, seed: int) -> list[dict[str, Tensor]]:
    """Return sequences of 8 numbers below 20, each with its label."""
    numbers = torch.randint(0, 20, (count, 8), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": ((row < 10).sum() > 4).long()} for row in numbers]


def main() -> None:
    """Train, and read the model again with transformers alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()

    pl.seed_everything(42)
    config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    module = Classifier(BertForSequenceClassification(config), lr=3e-3, warmup_steps=0.1)
    callbacks = [
        ModelCheckpoint(monitor="val_loss", safetensors=True),
        SavePretrained("classifier"),
    ]
    trainer = pl.Trainer(max_epochs=args.max_epochs, callbacks=callbacks)
    val = DataLoader(rows(200, seed=1), batch_size=50)
    trainer.fit(module, DataLoader(rows(800, seed=0), batch_size=16, shuffle=True), val)
    print(f"accuracy {float(trainer.callback_metrics['val_accuracy']):.2f}")

    again = AutoModelForSequenceClassification.from_pretrained("classifier").eval()
    batch = next(iter(val))["input_ids"]
    with torch.inference_mode():
        equal = torch.equal(again(batch).logits, module.model.eval()(batch).logits)
    print(f"transformers reads it again: the same logits: {equal}")


if __name__ == "__main__":
    main()
