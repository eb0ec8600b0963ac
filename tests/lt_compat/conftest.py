"""What the tests of lt-compat share: a Trainer with nothing around it, a small net, its data."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lt_core import LightningModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def make_trainer(**arguments: Any) -> Trainer:
    return Trainer(**{"accelerator": "cpu", "max_epochs": 1, **QUIET, **arguments})


class Net(LightningModule):
    """A classifier with dropout, so that every random draw shows in its weights."""

    def __init__(self, make_optimizers: Callable[[Any], Any] | None = None, **members: Any) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 3))
        self.make_optimizers = make_optimizers or (lambda module: torch.optim.SGD(module.parameters(), lr=0.1))
        for name, value in members.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def loss(self, batch: Any) -> Tensor:
        x, y = batch
        return cross_entropy(self.layers(x), y)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.loss(batch)

    def configure_optimizers(self) -> Any:
        return self.make_optimizers(self)


def make_data(samples: int = 100, seed: int = 7) -> Dataset[Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 3, (samples,), generator=generator))


def make_loader(samples: int = 100, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(make_data(samples), **{"batch_size": 4, "shuffle": True, **arguments})


@pytest.fixture
def trainer() -> Callable[..., Trainer]:
    """Make a Trainer with nothing around the loop."""
    return make_trainer


@pytest.fixture
def net() -> type[Net]:
    return Net


@pytest.fixture
def loader() -> Callable[..., DataLoader[Any]]:
    return make_loader
