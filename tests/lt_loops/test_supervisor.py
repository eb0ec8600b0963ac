"""Whoever watches a process is told by the loops how far it is, whatever the strategy's class overrides."""

import pytest
import torch

from lt_core import LightningModule, Strategy, Supervisor
from lt_loops import Trainer

QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
}


class Net(LightningModule):
    def __init__(self, fails=False):
        super().__init__()
        self.layer, self.fails = torch.nn.Linear(1, 1), fails

    def training_step(self, batch, batch_idx):
        if self.fails:
            raise ValueError("boom")
        return self.layer(batch).sum()

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Notes(Supervisor):
    def __init__(self):
        self.heard = []

    def ready(self):
        self.heard.append("ready")

    def batch_done(self, phase):
        self.heard.append(phase)

    def failed(self, error):
        self.heard.append(str(error))


class OnItsOwn(Strategy):
    """Overrides everything that says something of its own."""

    def batch_done(self, phase):
        self.batches = [*getattr(self, "batches", []), phase]

    def close(self, error=None):
        self.supervisor.heard.append("closed")


def run(strategy, module):
    strategy.supervisor = Notes()
    trainer = Trainer(accelerator="cpu", strategy=strategy, max_epochs=1, **QUIET)
    trainer.fit(module, [torch.ones(1, 1)] * 2, [torch.ones(1, 1)])
    return strategy.supervisor.heard


@pytest.mark.parametrize("kind", [Strategy, OnItsOwn])
def test_it_hears_of_the_start_and_of_each_batch(kind):
    strategy = kind()
    heard = run(strategy, Net())
    assert heard[:4] == ["ready", "train", "train", "validate"]
    assert getattr(strategy, "batches", ["train", "train", "validate"]) == ["train", "train", "validate"]


def test_it_hears_of_an_error_before_the_strategy_leaves_its_group():
    strategy = OnItsOwn()
    with pytest.raises(ValueError, match="boom"):
        run(strategy, Net(fails=True))
    assert strategy.supervisor.heard == ["ready", "boom", "closed"]
