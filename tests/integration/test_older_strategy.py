"""A third-party strategy of an older interface trains, validates, resumes; what it cannot do is an error before it."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule, Strategy
from lt_core.errors import ConfigError
from lt_loops import Trainer


class Old(Strategy):
    """As one could have been written before these members took further arguments."""

    interface_version = 0
    name = "old"

    def backward(self, loss):
        loss.backward()

    def optimizer_step(self, optimizer):
        optimizer.step()
        return True

    def load_module_state(self, module, state):
        return module.load_state_dict(state)

    def load_checkpoint(self, io, path):
        return io.load_checkpoint(path)

    def barrier(self):
        pass


class Lit(LightningModule):
    def __init__(self, optimizer=torch.optim.SGD):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(4, 2)
        self.kind = optimizer

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).pow(2).mean()

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch[0]).mean())

    def configure_optimizers(self):
        return self.kind(self.parameters(), lr=0.1)


def trainer(strategy, **arguments):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(accelerator="cpu", strategy=strategy, **{"max_epochs": 2, **quiet, **arguments})


def loader():
    return DataLoader(TensorDataset(torch.randn(32, 4, generator=torch.Generator().manual_seed(1))), batch_size=4)


def test_a_strategy_of_an_older_interface_trains_validates_and_resumes(tmp_path):
    present, old, resumed = Lit(), Lit(), Lit()
    trainer("single").fit(present, loader(), loader())
    first = trainer(Old(), max_epochs=1)
    first.fit(old, loader(), loader())
    first.save_checkpoint(tmp_path / "half.ckpt")
    second = trainer(Old())
    second.fit(resumed, loader(), loader(), ckpt_path=tmp_path / "half.ckpt")
    assert second.global_step == 16
    assert torch.equal(resumed.layer.weight, present.layer.weight)


def test_what_it_cannot_do_is_an_error_in_the_first_step():
    module = Lit(torch.optim.LBFGS)
    before = module.layer.weight.detach().clone()
    with pytest.raises(ConfigError, match=r"Old.optimizer_step\(\) was written for an older interface.*closure"):
        trainer(Old()).fit(module, loader())
    assert torch.equal(module.layer.weight, before)
