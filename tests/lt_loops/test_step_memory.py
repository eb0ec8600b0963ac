"""What a step holds of a device's memory at its fullest: as much as the loop by hand, and the batch fetched ahead."""

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Accelerator, LightningModule

ROWS, WIDTH, BATCHES = 64, 128, 8
BATCH = ROWS * WIDTH * 4
SMALL = 1024
"""Bytes for what is logged, and losses."""


class Fullest(TorchDispatchMode):
    """Adds up what lives on the meta device, after each operation."""

    def __init__(self):
        super().__init__()
        self.alive, self.bytes = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and leaf.is_meta:
                memory = StorageWeakRef(leaf.untyped_storage())
                self.alive[memory.cdata] = (memory, leaf.untyped_storage().nbytes())
        self.alive = {key: held for key, held in self.alive.items() if not held[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self.alive.values()))
        return made


class Meta(Accelerator):
    name = device_type = "meta"

    def torch_device(self, index):
        return torch.device("meta")


class Beside(Meta):
    """A device that copies beside the step."""

    pinned = False

    def copies(self, device):
        return self

    def begin(self, tensor):
        return tensor.to("meta")

    def wait(self):
        """Copies are there when they are begun."""

    def hand_over(self, tensor):
        """Memory is that of one stream."""


class Net(LightningModule):
    def __init__(self, logs=False):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4)))
        self.logs = logs

    def training_step(self, batch, batch_idx):
        scores = self.layers(batch[0])
        loss = scores.square().mean()
        if self.logs:
            self.log("loss", loss, on_epoch=True)
            self.log_dict({"a": 2 * loss, "b": loss.detach()})
            return {"loss": loss, "size": scores.detach().mean()}
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def loader():
    return DataLoader(TensorDataset(torch.zeros(ROWS * BATCHES, WIDTH)), ROWS)


def by_hand():
    with Fullest() as found:
        net = Net().to("meta")
        optimizer = net.configure_optimizers()
        for (x,) in loader():
            loss = net.layers(x.to("meta")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return found.bytes


def no_values(recorder, group, *asked):
    recorder.answers = list(map(bool, asked))
    return {}


@pytest.mark.parametrize(("accelerator", "ahead"), [(Meta, 0), (Beside, BATCH)], ids=["plain", "a batch ahead"])
@pytest.mark.parametrize("arguments", [{}, {"gradient_clip_val": 1.0}], ids=["bare", "clipped"])
@pytest.mark.parametrize("logs", [False, True], ids=["silent", "logs"])
def test_a_step_holds_no_more_than_one_by_hand_and_a_batch(accelerator, ahead, arguments, logs, trainer, monkeypatch):
    pytest.importorskip("lt_data")
    monkeypatch.setattr("lt_loops.run.loss_watch.LossWatch.look", lambda watch, *args, **named: None)
    monkeypatch.setattr("lt_loops.logging.recorder.RunRecorder.epoch_values", no_values)
    bare = by_hand()
    with Fullest() as found:
        run = trainer(accelerator=accelerator(), **arguments)
        run.fit(Net(logs), loader())
    assert run.global_step == BATCHES
    assert bare > 20 * BATCH
    assert found.bytes <= bare + ahead + SMALL
