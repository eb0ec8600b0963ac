"""Recipes on the digits: mixup, CutMix or label smoothing, SAM, rates by layer, warmed-up EMA, a budget of time.

The module is the same for all; run it with ``uv run examples/vision/recipes.py --mix cutmix --sam``.
"""

# nox: --max-epochs 2 --mix mixup
# nox: --max-epochs 2 --mix cutmix --sam
# nox: --max-epochs 2 --mix smoothing --ema --hours 1

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import EMAWeightAveraging, Timer
from lt_recipes import SAM, CutMix, LabelSmoothing, Mixup, layerwise_lr


class Classifier(pl.LightningModule):
    """A small convolutional net on images of 8 × 8 pixels.

    Args:
        sam: step by sharpness-aware minimization.
        lr: of the last layer; the one before has half of it.
    """

    def __init__(self, sam: bool = False, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(16 * 4 * 4, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        images, targets = batch  # probabilities, by the recipe
        return nn.functional.cross_entropy(self(images), targets)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        images, digits = batch
        self.log("val_accuracy", (self(images).argmax(dim=1) == digits).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        groups = layerwise_lr(self, ["body", "head"], lr=self.hparams.lr, decay=0.5)
        optimizer = torch.optim.SGD(groups, momentum=0.9)
        return SAM(optimizer, rho=0.05) if self.hparams.sam else optimizer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mix", choices=["none", "mixup", "cutmix", "smoothing"], default="mixup")
    parser.add_argument("--sam", action="store_true")
    parser.add_argument("--ema", action="store_true", help="validate the average of the weights")
    parser.add_argument("--hours", type=float, help="of training, at most")
    parser.add_argument("--max-epochs", type=int, default=20)
    flags = parser.parse_args()
    pl.seed_everything(7)
    bunch = load_digits()
    data = TensorDataset(torch.from_numpy(bunch.images).float().unsqueeze(1) / 16, torch.from_numpy(bunch.target))
    train, val = torch.utils.data.random_split(data, [0.8, 0.2])
    mixes = {"mixup": Mixup, "cutmix": CutMix, "smoothing": LabelSmoothing}
    callbacks = [mixes[flags.mix](num_classes=10)] if flags.mix in mixes else []
    if flags.ema:
        callbacks.append(EMAWeightAveraging(decay=0.99, warmup=True))
    if flags.hours is not None:
        callbacks.append(Timer(f"{flags.hours} h"))
    trainer = pl.Trainer(
        max_epochs=flags.max_epochs, callbacks=callbacks, accelerator="cpu", enable_model_summary=False
    )
    trainer.fit(Classifier(flags.sam), DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=256))
    print(f"{flags.mix}, SAM {flags.sam}: accuracy {trainer.callback_metrics['val_accuracy']:.3f}")
