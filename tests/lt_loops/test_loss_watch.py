"""A loss that is one number is looked at without a kernel of torch's: the first one brings a MB of code into memory."""

import pytest
import torch

from lt_core import LightningModule
from lt_core.errors import LtWarning
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self, factor=1.0, dtype=torch.float32):
        super().__init__()
        self.layer, self.factor, self.dtype_of_loss = torch.nn.Linear(4, 1), factor, dtype

    def training_step(self, batch):
        return (self.layer(batch).sum() * self.factor).to(self.dtype_of_loss)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module):
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    Trainer(accelerator="cpu", max_epochs=1, log_every_n_steps=1, **off).fit(module, [torch.ones(2, 4)] * 2)


def test_a_finite_loss_is_looked_at_by_its_number(monkeypatch):
    monkeypatch.setattr(torch, "isfinite", lambda *args: pytest.fail("a kernel for one number"))
    fit(Net())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("factor", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_is_told(factor, dtype):
    with pytest.warns(LtWarning, match="LT341"):
        fit(Net(factor, dtype))
