"""A small module, its data, and the installed Trainer, for the kits to train with."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import plugins
from lt_core.module import LightningModule
from lt_core.plugins import ROLES
from lt_testing.kit import Kit

__all__ = ["QUIET", "KitModule", "assert_same", "copies", "fitted", "installed_trainer", "kit_data", "same", "seeded"]

QUIET: dict[str, Any] = {"accelerator": "cpu", "logger": False, **dict.fromkeys(ROLES.values(), False)}
"""Arguments of a Trainer that says and keeps nothing."""


class KitModule(LightningModule):
    """A small classifier with dropout, so that a random draw of anybody else shows in its weights."""

    def __init__(self, fails_at: int = -1) -> None:
        """Fail in training batch ``fails_at``."""
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 3))
        self.fails_at = fails_at

    def forward(self, x: Tensor) -> Tensor:
        """Return scores, shape ``(batch, 3)``."""
        scores: Tensor = self.layers(x)
        return scores

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Return the loss, and log it."""
        if batch_idx == self.fails_at:
            raise ArithmeticError("the step fails, on purpose")
        return self._loss("train_loss", batch)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        """Log the loss."""
        self._loss("val_loss", batch)

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        """Log the loss."""
        self._loss("test_loss", batch)

    def predict_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Return the scores."""
        scores: Tensor = self(batch[0])
        return scores

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return SGD with momentum."""
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    def _loss(self, name: str, batch: list[Tensor]) -> Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log(name, loss)
        return loss


def seeded(fails_at: int = -1) -> KitModule:
    """Return a module whose weights are the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return KitModule(fails_at)


def fitted(trainer: Any, **how: Any) -> KitModule:
    """Return the module that a Trainer has fitted, from the same weights and random numbers each time."""
    module = seeded()
    torch.manual_seed(5)
    trainer.fit(module, kit_data(), **how)
    return module


def copies(part: Any) -> list[Any]:
    """Return a copy of a part, and one that was pickled."""
    return [copy.deepcopy(part), pickle.loads(pickle.dumps(part))]


def kit_data() -> DataLoader[Any]:
    """Return five batches of samples, the same each time."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(40, 6, generator=generator)
    return DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=8)


def same(mine: Any, theirs: Any) -> bool:
    """Return whether two nests of plain data and tensors are equal."""
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return torch.equal(mine, theirs)
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(same(value, theirs[key]) for key, value in mine.items())
    if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return bool(mine == theirs)


def assert_same(mine: Any, theirs: Any, name: str = "state") -> None:
    """Assert that two nests of plain data and tensors are equal; the error says where they are not."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        for key, value in mine.items():
            assert_same(value, theirs[key], f"{name}[{key!r}]")
        return
    assert same(mine, theirs), f"{name}: {mine!r:.200} is not {theirs!r:.200}"


def installed_trainer(kit: Kit) -> Any:
    """Return the class of the Trainer that is installed; skip a kit's test where there is none."""
    if plugins.find("trainers", "default") is None:
        kit.skip(f"needs the Trainer: {plugins.install_hint('lt-loops')}")
    return plugins.load("trainers", "default")
