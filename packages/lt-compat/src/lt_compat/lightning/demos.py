"""A model and data for tests, as packages built on Lightning import them from its demos."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset, Subset

from lt_core.module import LightningModule

if TYPE_CHECKING:
    from lt_data import LightningDataModule
else:
    LightningDataModule = import_module("lt_data").LightningDataModule

__all__ = ["BoringDataModule", "BoringModel", "DemoModel", "RandomDataset", "RandomDictDataset"]


class RandomDataset(Dataset[Tensor]):
    """Random vectors.

    Args:
        size: numbers in each.
        length: how many.
    """

    def __init__(self, size: int, length: int) -> None:
        self.len = length
        self.data = torch.randn(length, size)

    def __getitem__(self, index: int) -> Tensor:
        return self.data[index]

    def __len__(self) -> int:
        return self.len


class RandomDictDataset(RandomDataset):
    """Random vectors, each in a dict: ``a``, and ``b`` that is ``a + 2``."""

    def __getitem__(self, index: int) -> Any:
        return {"a": self.data[index], "b": self.data[index] + 2}


class BoringModel(LightningModule):
    """The smallest module with all steps and loaders."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return shape (n, 2) for ``x`` of shape (n, 32)."""
        return self.layer(x)  # type: ignore[no-any-return]

    def loss(self, preds: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the mean squared difference of ``preds`` from ``labels``, or from ones; shape ``()``."""
        return mse_loss(preds, torch.ones_like(preds) if labels is None else labels)

    def step(self, batch: Any) -> Any:
        """Return the loss of a batch."""
        return self.loss(self(batch))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return {"loss": self.step(batch)}

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        return {"x": self.step(batch)}

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        return {"y": self.step(batch)}

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    def train_dataloader(self) -> Any:
        return DataLoader(RandomDataset(32, 64))

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


class BoringDataModule(LightningDataModule):
    """The loaders of :class:`BoringModel`: each has a quarter of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.random_full = RandomDataset(32, 256)
        self.random_train, self.random_val, self.random_test, self.random_predict = (
            Subset(self.random_full, range(first, first + 64)) for first in range(0, 256, 64)
        )

    def train_dataloader(self) -> Any:
        return DataLoader(self.random_train)

    def val_dataloader(self) -> Any:
        return DataLoader(self.random_val)

    def test_dataloader(self) -> Any:
        return DataLoader(self.random_test)

    def predict_dataloader(self) -> Any:
        return DataLoader(self.random_predict)


class DemoModel(LightningModule):
    """A model with hyperparameters.

    Args:
        out_dim: numbers that it gives for each sample.
        learning_rate: of its optimizer.
    """

    def __init__(self, out_dim: int = 10, learning_rate: float = 0.02) -> None:
        super().__init__()
        self.l1 = nn.Linear(32, out_dim)
        self.learning_rate = learning_rate

    def forward(self, x: Tensor) -> Tensor:
        """Return shape (n, out_dim) for ``x`` of n samples."""
        return torch.relu(self.l1(x.flatten(1)))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self(batch).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)
