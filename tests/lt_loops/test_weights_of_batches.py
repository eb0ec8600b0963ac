"""An epoch's mean weighs batches by their samples, whatever a collate function makes of these."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import LightningModule


class Pair(NamedTuple):
    x: Any
    y: Any


class Net(LightningModule):
    """Logs the number of each batch: 0, 1, 2, of 4, 4 and 2 samples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        self.log("train", float(batch_idx), on_step=False, on_epoch=True)
        return self.layer(torch.ones(1, 1)).sum()

    def validation_step(self, batch, batch_idx):
        self.log("validate", float(batch_idx))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


BATCHES = {
    "samples first": torch.stack,
    "time first": lambda samples: torch.stack(samples).expand(-1, 6).T,
    "time first, input and target": lambda samples: [torch.stack(samples).expand(-1, 6).T] * 2,
    "a list of scalars": list,
    "a list of images": lambda samples: [sample.expand(3, 8, 8) for sample in samples],
    "images and targets": lambda samples: tuple(zip(*[(s.expand(3, 8), s.expand(3)) for s in samples], strict=True)),
    "lists in a dict": lambda samples: {"images": [s.expand(3, 8) for s in samples], "ids": list(range(len(samples)))},
    "texts beside a table": lambda samples: (["text"] * len(samples), torch.zeros(3, 3)),
    "a named tuple": lambda samples: Pair(torch.zeros(1, len(samples)), torch.stack(samples)),
    "edges of graphs": lambda samples: {"edges": torch.zeros(2, 30), "nodes": torch.stack(samples)},
    "a list of dicts": lambda samples: [{"image": s.expand(5), "target": torch.zeros(3)} for s in samples],
}


@pytest.mark.parametrize("form", BATCHES)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_mean_weighs_batches_by_their_samples(form, workers, trainer):
    if workers and form not in ("time first", "a list of images"):
        pytest.skip("workers change nothing here but where the batch is made")
    data = DataLoader(list(torch.arange(10.0).view(10, 1)), 4, collate_fn=BATCHES[form], num_workers=workers)
    run = trainer(num_sanity_val_steps=0, max_epochs=2)
    run.fit(Net(), data, data)
    assert {name: float(value) for name, value in run.callback_metrics.items()} == pytest.approx(
        {"train": 0.8, "validate": 0.8}
    )


@pytest.mark.parametrize("features", [1, 4])
def test_a_collate_function_that_drops_samples_says_how_many_are_left(features, trainer):
    def kept(samples):
        x = torch.stack([sample for sample in samples if sample != 1]).expand(-1, features)
        return x, x[:, 0]

    data = DataLoader(list(torch.arange(8.0).view(8, 1)), 4, collate_fn=kept)
    run = trainer(num_sanity_val_steps=0)
    run.fit(Net(), data, data)
    assert float(run.callback_metrics["train"]) == pytest.approx(4 / 7)
