"""The classic first project: a classifier of handwritten digits.

Run it with ``uv run examples/digits.py``; ``--help`` lists the flags. The data are scikit-learn's real handwritten
digits, scaled to 28x28 and written as MNIST's own IDX files; ``--data mnist`` downloads MNIST itself.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, random_split
from torchvision import transforms
from torchvision.datasets import MNIST

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.data import prepare_once


class LitDigits(pl.LightningModule):
    """Three linear layers: 784-128-256-10."""

    def __init__(self, hidden: tuple[int, int] = (128, 256), learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        first, second = hidden
        layers = [nn.Linear(28 * 28, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, 10)]
        self.layers = nn.Sequential(nn.Flatten(), *layers, nn.LogSoftmax(dim=1))
        self.example_input_array = torch.zeros(1, 1, 28, 28)

    def forward(self, images: Tensor) -> Tensor:
        """Return log-probabilities, shape ``(batch, 10)``, of images of shape ``(batch, 1, 28, 28)``."""
        return self.layers(images)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, digits = batch
        loss = nn.functional.nll_loss(self(images), digits)
        self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate(batch, "val")

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate(batch, "test")

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self(batch[0]).argmax(dim=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)

    def _evaluate(self, batch: tuple[Tensor, Tensor], stage: str) -> None:
        images, digits = batch
        scores = self(images)
        self.log(f"{stage}_loss", nn.functional.nll_loss(scores, digits), prog_bar=True)
        self.log(f"{stage}_acc", (scores.argmax(dim=1) == digits).float().mean(), prog_bar=True)


class DigitsData(pl.LightningDataModule):
    """MNIST, or scikit-learn's digits in MNIST's format: train, validation and test loaders."""

    def __init__(self, root: str = f"{Path(__file__).parent}/data", source: str = "digits", batch_size=32) -> None:
        super().__init__()
        self.root, self.source, self.batch_size = Path(root), source, batch_size
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])

    def prepare_data(self) -> None:
        """Write or download the files; called once, on one process."""
        with prepare_once(self.root / self.source, key="v1") as needed:
            if needed and self.source == "digits":
                write_digits(self.root / "digits" / "MNIST" / "raw")
            elif needed:
                for train in (True, False):
                    MNIST(self.root / "mnist", train=train, download=True)

    def setup(self, stage: str) -> None:
        """Open the files and split off the validation part; called on every process."""
        folder = self.root / self.source
        if stage in ("fit", "validate"):
            images = MNIST(folder, train=True, transform=self.transform)
            self.train, self.val = random_split(images, [11 / 12, 1 / 12], torch.Generator().manual_seed(0))
        if stage in ("test", "predict"):
            self.test = MNIST(folder, train=False, transform=self.transform)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, batch_size=256)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test, batch_size=256)

    predict_dataloader = test_dataloader


def write_digits(folder: Path) -> None:
    """Write scikit-learn's 1797 digits as MNIST's IDX files: 28x28 bytes each, every fifth one for testing."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = nn.functional.interpolate(
        torch.from_numpy(digits.images).float()[:, None] / 16, size=(20, 20), mode="bilinear"
    )
    images = (nn.functional.pad(images, (4, 4, 4, 4)).squeeze(1) * 255).round().to(torch.uint8).numpy()
    is_test = np.arange(len(images)) % 5 == 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("train", ~is_test), ("t10k", is_test)):
        for kind, array in (("images-idx3", images[chosen]), ("labels-idx1", digits.target.astype(np.uint8)[chosen])):
            header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)  # 8: the type is bytes
            (folder / f"{name}-{kind}-ubyte").write_bytes(header + array.tobytes())


def main() -> None:
    """Train, test the best weights, predict, and load the checkpoint again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--max-epochs", type=int, default=15)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--logger", choices=["tensorboard", "csv", "none"], default="tensorboard")
    args = parser.parse_args()

    pl.seed_everything(42)
    data = DigitsData(source=args.data)
    model = LitDigits()
    checkpoint = ModelCheckpoint(monitor="val_loss")
    options = {name: getattr(args, name) for name in ("max_epochs", "accelerator", "devices", "strategy", "precision")}
    options["logger"] = False if args.logger == "none" else args.logger
    trainer = pl.Trainer(callbacks=[checkpoint], log_every_n_steps=10, **options)
    trainer.fit(model, datamodule=data)
    trainer.test(ckpt_path="best", datamodule=data)
    predictions = torch.cat(trainer.predict(datamodule=data))

    best = LitDigits.load_from_checkpoint(checkpoint.best_model_path)
    trainer.print(f"First predictions: {predictions[:10].tolist()}, of {len(predictions)}")
    trainer.print(f"Best checkpoint:   {checkpoint.best_model_path} (hidden layers: {best.hparams.hidden})")
    trainer.print(f"Logs:              {trainer.log_dir}")


if __name__ == "__main__":
    main()
