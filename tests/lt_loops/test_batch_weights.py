"""An epoch's mean weighs batches by samples where their tensors say nothing of it: the sampler knows."""

import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_core.dialect import Policy
from lt_loops import Trainer

VALUES = torch.arange(5.0)


class Opaque:
    """A batch without a size, such as a graph library's."""

    def __init__(self, y):
        self.hidden = y

    def __getitem__(self, name):
        return self.hidden


BATCHES = {
    "graphs": lambda y: {"edge_index": torch.zeros(2, 7 * len(y)), "x": torch.ones(3 * len(y), 4), "y": y},
    "time first": lambda y: {"x": torch.ones(9, len(y), 4), "y": y},
    "a scalar first": lambda y: {"scale": torch.tensor(3.0), "y": y},
    "one number first": lambda y: {"scale": torch.tensor([3.0]), "y": y},
    "an object": Opaque,
    "tensors": lambda y: {"x": torch.ones(len(y), 4), "y": y},
}


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        self.log("train", batch["y"].mean(), on_step=False, on_epoch=True)
        return self.layer(torch.ones(1)).sum()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("val", batch["y"].mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("single", [False, True])
def test_the_mean_is_that_of_the_samples(kind, single, trainer, monkeypatch):
    monkeypatch.setattr(Trainer, "policy", Policy(single_precision=single))

    def loader(size):
        return DataLoader(VALUES, size, collate_fn=lambda samples: BATCHES[kind](torch.stack(samples)))

    run = trainer(max_epochs=2, val_check_interval=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.fit(Net(), loader(2), [loader(3), loader(4)])
    assert {name: value.item() for name, value in run.callback_metrics.items()} == {
        "train": VALUES.mean(),
        "val/dataloader_idx_0": VALUES.mean(),
        "val/dataloader_idx_1": VALUES.mean(),
    }


def test_without_a_sampler_what_is_taken_is_told(trainer):
    batches = [BATCHES["graphs"](VALUES[:2]), BATCHES["graphs"](VALUES[2:])]
    with pytest.warns(UserWarning, match=r"edge_index.*LT510"):
        trainer().validate(Net(), batches, verbose=False)
