"""The data of the project: points in the plane, and to which of three clouds each belongs."""

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class CloudsDataModule(pl.LightningDataModule):
    def __init__(self, data_dir="./", batch_size=32):
        super().__init__()
        self.data_dir = data_dir
        self.batch_size = batch_size
        self.dims = (2,)

    def prepare_data(self):
        generator = torch.Generator().manual_seed(7)
        labels = torch.arange(240) % 3
        centers = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
        points = centers[labels] + 0.7 * torch.randn(240, 2, generator=generator)
        torch.save((points, labels), f"{self.data_dir}/clouds.pt")

    def setup(self, stage=None):
        points, labels = torch.load(f"{self.data_dir}/clouds.pt")
        if stage == "fit" or stage is None:
            self.train = TensorDataset(points[:160], labels[:160])
            self.val = TensorDataset(points[160:200], labels[160:200])
        if stage == "test" or stage is None:
            self.test = TensorDataset(points[200:], labels[200:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=self.batch_size)

    def test_dataloader(self):
        return DataLoader(self.test, batch_size=self.batch_size)
