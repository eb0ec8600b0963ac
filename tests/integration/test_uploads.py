"""Checkpoints of a run, uploaded in the background: what a ModelCheckpoint keeps here is what lies there at the end."""

import fsspec
import torch
from torch import nn

from lt_callbacks import ModelCheckpoint
from lt_core import LightningModule
from lt_loops import Trainer
from lt_uploads import UploadingCheckpointIO


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module, **arguments):
    batches = list(torch.rand(10, 4, 2, generator=torch.Generator().manual_seed(1)))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    Trainer(max_epochs=2, log_every_n_steps=1, **quiet, **arguments).fit(module, batches)
    return module


def names(url):
    return {entry["name"].rpartition("/")[2] for entry in fsspec.filesystem("memory").ls(url)}


def test_what_is_best_here_lies_there(tmp_path):
    url = "memory://uploads-same"
    best = ModelCheckpoint(tmp_path, monitor="loss", mode="max", save_top_k=2, every_n_train_steps=3, save_last=True)
    whole = fit(Line(), callbacks=best, plugins=UploadingCheckpointIO(url))
    assert names(url) == {path.name for path in tmp_path.iterdir()}
    assert len(names(url)) == 3
    loaded = Line.load_from_checkpoint(f"{url}/last.ckpt")
    assert torch.equal(loaded.layer.weight, whole.layer.weight)


def test_more_of_the_newest_can_stay_there_than_here(tmp_path):
    url = "memory://uploads-newest"
    newest = ModelCheckpoint(tmp_path, every_n_train_steps=3)
    fit(Line(), callbacks=newest, plugins=UploadingCheckpointIO(url, keep=3))
    assert names(url) == {f"epoch={step // 10}-step={step}.ckpt" for step in (12, 15, 18)}
    assert [path.name for path in tmp_path.iterdir()] == ["epoch=1-step=18.ckpt"]
