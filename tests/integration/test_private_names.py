"""Users' modules and datamodules have private attributes of any name; lt's own begin with _lt_, or are Lightning's."""

import copy

import pytest
import torch

from lt_core import LightningModule
from lt_data import LightningDataModule
from lt_loops import Trainer

LIGHTNINGS = {
    "_apply",
    "_device",
    "_hparams",
    "_hparams_initial",
    "_hparams_name",
    "_load_from_state_dict",
    "_log_hyperparams",
    "_metric_attributes",
    "_set_hparams",
    "_to_hparams_dict",
    "_trainer",
}
"""Names that Lightning's classes have too (2.6)."""


class Net(LightningModule):
    def __init__(self, width=1):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(2, width)
        self.automatic_optimization = width == 1

    def training_step(self, batch, batch_idx):
        self.log("loss", loss := self.layer(batch).sum())
        if not self.automatic_optimization:
            with self.toggled_optimizer(self.optimizers()):
                self.manual_backward(loss)
                self.optimizers().step()
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Data(LightningDataModule):
    def train_dataloader(self):
        return [torch.ones(1, 2)]


QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def fitted(module, **members):
    trainer = Trainer(accelerator="cpu", devices=1, max_epochs=1, **QUIET)
    trainer.fit(module, datamodule=Data())
    return trainer


def private(owner):
    names = {*vars(owner)}
    for kind in type(owner).__mro__:
        names |= {*vars(kind)} if kind.__module__.startswith("lt_") else set()
    known = {*dir(torch.nn.Module), *vars(torch.nn.Module())}
    return {name for name in names - known if name.startswith("_") and not name.startswith(("__", "_lt_", "_abc_"))}


@pytest.mark.parametrize("width", [1, 2])
def test_private_names_of_a_module_are_lts_or_lightnings(width):
    found = set()

    class Looking(Net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            found.update(private(self))

    module = Looking(width)
    fitted(module)
    assert found | private(module) <= LIGHTNINGS


@pytest.mark.parametrize(
    "name", ["_parts", "_ranks", "_manual", "_recorder", "_toggled", "_attach_run", "_optimize_by"]
)
@pytest.mark.parametrize("width", [1, 2])
def test_a_module_may_have_an_attribute_of_any_private_name(name, width):
    module = Net(width)
    setattr(module, name, [1, 2])
    fitted(module)
    assert getattr(module, name) == [1, 2]


@pytest.mark.parametrize("name", ["_trainer", "_loaders", "_parts", "_run", "_state"])
def test_a_datamodule_may_have_an_attribute_of_any_private_name(name):
    class Data(LightningDataModule):
        def train_dataloader(self):
            found.append((getattr(self, name), self.trainer is trainer))
            return [torch.ones(1, 2)]

    found, data = [], Data()
    setattr(data, name, [1, 2])
    trainer = Trainer(accelerator="cpu", devices=1, max_epochs=1, **QUIET)
    trainer.fit(Net(), datamodule=data)
    assert found == [([1, 2], True)]
    assert getattr(copy.copy(data), name) == [1, 2]


def test_to_may_forget_to_return_the_module():
    class Forgets(Net):
        def to(self, *given, **named):
            super().to(*given, **named)

    torch.manual_seed(0)
    plain = Net()
    torch.manual_seed(0)
    module = Forgets()
    fitted(plain)
    fitted(module)
    assert torch.equal(plain.layer.weight, module.layer.weight)


def test_the_link_to_the_trainer_can_be_deleted():
    module = Net()
    trainer = fitted(module)
    assert module.trainer is trainer
    del module._trainer
    with pytest.raises(RuntimeError, match="not attached"):
        _ = module.trainer
