"""``LightningModule[Batch]``: for type checkers; at run time a module as any other."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lt_core import LightningModule


class Typed(LightningModule[tuple[Tensor, Tensor]]):
    def __init__(self, width=3):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)


def test_a_typed_module_is_an_ordinary_one():
    module = Typed(width=5)
    assert dict(module.hparams) == {"width": 5}
    again = pickle.loads(pickle.dumps(module))
    assert torch.equal(again.layer.weight, module.layer.weight)
    assert isinstance(module, LightningModule)


STEPS = """
from torch import Tensor
from lt_core import LightningModule

class Right(LightningModule[tuple[Tensor, Tensor]]):
    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return batch[0].mean()

class Untyped(LightningModule):
    def training_step(self, x: Tensor) -> Tensor:
        return x.mean()

class Wrong(LightningModule[Tensor]):
    def validation_step(self, batch: int, batch_idx: int) -> None: ...
"""


@pytest.mark.slow
def test_mypy_compares_the_steps_with_the_batch(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "steps.py").write_text(STEPS)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "steps.py")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.stdout.count("error:") == 1
    assert '"validation_step" incompatible' in done.stdout
