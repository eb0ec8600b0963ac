"""The kit says what every step must do; the numbers are those of the loop by hand."""

import pytest
import torch
from lt_step_rdrop import RDrop
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from lt_core import ConfigError, LightningModule, plugins
from lt_loops import Trainer
from lt_testing import StepKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run
QUIET = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.Linear(16, 3))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.layers(x)
        loss = cross_entropy(logits, y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return {"loss": loss, "logits": logits}

    def validation_step(self, batch, batch_idx):
        """Nothing."""

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def make_net(kind=Net):
    torch.manual_seed(0)
    return kind()


def make_data():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
    return list(zip(x.split(8), x[:, :3].argmax(1).split(8), strict=True))


def fit(net, **arguments):
    trainer = Trainer(**{"max_epochs": 1, "accelerator": "cpu", **QUIET, **arguments})
    torch.manual_seed(5)
    trainer.fit(net, make_data())
    return trainer


class TestRDrop(StepKit):
    @pytest.fixture
    def step(self):
        return RDrop(alpha=0.5)

    def make_module(self):
        return make_net()

    def make_data(self):
        return make_data()


@pytest.mark.parametrize("window", [1, 2])
def test_weights_and_logged_values_are_those_of_the_loop_by_hand(window):
    net, by_hand = make_net(), make_net()
    trainer = fit(net, step=RDrop(alpha=2.0), accumulate_grad_batches=window)
    optimizer, firsts, divergences = by_hand.configure_optimizers(), [], []
    torch.manual_seed(5)
    batches = make_data()
    for start in range(0, 5, window):
        part = batches[start : start + window]
        optimizer.zero_grad()
        for x, y in part:
            one, two = by_hand.layers(x), by_hand.layers(x)
            p, q = log_softmax(one, -1), log_softmax(two, -1)
            apart = ((p.exp() - q.exp()) * (p - q)).sum() / len(x) / 2
            loss = (cross_entropy(one, y) + cross_entropy(two, y)) / 2 + 2.0 * apart
            (loss / len(part)).backward()
            firsts.append(cross_entropy(one, y).item())
            divergences.append(apart.item())
        optimizer.step()
    for mine, theirs in zip(net.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert trainer.callback_metrics["train_loss_epoch"].item() == pytest.approx(sum(firsts) / 5)
    assert trainer.callback_metrics["rdrop"].item() == pytest.approx(divergences[-1], rel=1e-4)


def test_the_trainer_finds_it_by_name():
    assert plugins.load("steps", "rdrop") is RDrop
    assert fit(make_net(), step="rdrop").global_step == 5


def test_what_it_cannot_train_is_an_error():
    class Closure(Net):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters())

    class Alone(Net):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx)["loss"]

    with pytest.raises(ConfigError, match=r"RDrop.*LBFGS calls training_step by itself"):
        fit(make_net(Closure), step=RDrop())
    with pytest.raises(TypeError, match=r"'logits'.*received Tensor"):
        fit(make_net(Alone), step=RDrop())
