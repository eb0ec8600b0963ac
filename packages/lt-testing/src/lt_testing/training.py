"""A small module, its data, and the installed Trainer, for the kits to train with."""

import copy
import hashlib
import multiprocessing
import os
import pickle
import random
import re
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import plugins
from lt_core.batch import map_batch
from lt_core.module import LightningModule
from lt_core.plugins import ROLES
from lt_core.seed import isolate_rng
from lt_testing.kit import Kit

__all__ = [
    "QUIET",
    "KitModule",
    "assert_same",
    "copies",
    "fingerprint",
    "fitted",
    "kit_data",
    "quiet_trainer",
    "same",
    "seeded",
    "surroundings",
]

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
    random.seed(5)
    trainer.fit(module, kit_data(), **how)
    return module


def copies(part: Any) -> list[Any]:
    """Return a copy of a part, and one that was pickled."""
    return [copy.deepcopy(part), pickle.loads(pickle.dumps(part))]


def surroundings() -> dict[str, Any]:
    """Return everything around a part in this process that it must leave as it was."""
    numpy = sys.modules.get("numpy")
    with isolate_rng():
        draws = [random.random(), torch.rand(1).tolist(), numpy and numpy.random.rand()]
    return {
        # torch's profiler sets some for CUPTI and TORCHINDUCTOR
        "variables": {name: value for name, value in os.environ.items() if not re.search("CUPTI|INDUCTOR", name)},
        "folder": Path.cwd(),
        "random numbers": draws,
        "signals": [*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))],
        "start method": multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0],
        "modes of torch": [
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.is_anomaly_enabled(),
        ],
        "profiler": sys.getprofile(),
    }


def kit_data() -> DataLoader[Any]:
    """Return five batches of samples, the same each time."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(40, 6, generator=generator)
    return DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=8)


def fingerprint(value: Any) -> str:
    """Return a text that is the same for equal values, tensors compared bit for bit."""
    digest = hashlib.sha256()

    def add(tensor: Any) -> Any:
        if isinstance(tensor, Tensor):
            plain = tensor.detach().cpu().contiguous()
            digest.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
            digest.update(bytes(plain.reshape(-1).view(torch.uint8).tolist()))
            return "tensor"
        return tensor

    digest.update(repr(map_batch(add, value)).encode())
    return digest.hexdigest()


def same(mine: Any, theirs: Any) -> bool:
    """Return whether two nests of plain data and tensors are equal, in their types and order, too."""
    return fingerprint(mine) == fingerprint(theirs)


def assert_same(mine: Any, theirs: Any, name: str = "state") -> None:
    """Assert that two nests of plain data and tensors are equal; the error says where they are not."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and list(mine) == list(theirs):
        for key, value in mine.items():
            assert_same(value, theirs[key], f"{name}[{key!r}]")
        return
    assert same(mine, theirs), f"{name}: {mine!r:.200} is not {theirs!r:.200}"


def quiet_trainer(kit: Kit, folder: Path, **arguments: Any) -> Any:
    """Return a Trainer that says and keeps nothing, below ``folder``; skip a kit's test where none is installed."""
    if plugins.find("trainers", "default") is None:
        kit.skip(f"needs the Trainer: {plugins.install_hint('lt-loops')}")
    return plugins.load("trainers", "default")(**{**QUIET, "default_root_dir": str(folder), **arguments})
