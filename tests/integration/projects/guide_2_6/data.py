"""The data of the project: points in the plane, and to which of three clouds each belongs."""

from pathlib import Path

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Clouds(L.LightningDataModule):
    """Points around three centers.

    Args:
        data_dir: where the data lies.
        batch_size: samples per batch and process.
    """

    def __init__(self, data_dir: str = ".", batch_size: int = 16) -> None:
        super().__init__()
        self.save_hyperparameters()

    @property
    def path(self) -> Path:
        return Path(self.hparams.data_dir) / "clouds.pt"

    def prepare_data(self) -> None:
        generator = torch.Generator().manual_seed(7)
        labels = torch.arange(240) % 3
        centers = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
        points = centers[labels] + 0.7 * torch.randn(240, 2, generator=generator)
        torch.save((points, labels), self.path)

    def setup(self, stage: str) -> None:
        points, labels = torch.load(self.path)
        self.train = TensorDataset(points[:160], labels[:160])
        self.val = TensorDataset(points[160:200], labels[160:200])
        self.rest = TensorDataset(points[200:], labels[200:])

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=self.hparams.batch_size)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, batch_size=self.hparams.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.rest, batch_size=self.hparams.batch_size)

    def predict_dataloader(self) -> DataLoader:
        return DataLoader(self.rest, batch_size=self.hparams.batch_size)
