"""``last.ckpt`` holds the end of the run, under one name, however it is asked for and wherever it lies."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import ModelCheckpoint
from lt_checkpoint import AsyncCheckpointIO, TorchCheckpointIO
from lt_core import Callback, CheckpointIO, LightningModule
from lt_core.checkpoint import OneFile
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val", float(self.current_epoch))  # the first epoch is the best

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Lost(Exception):
    pass


class Machine(Callback):
    def __init__(self, lost_at):
        self.lost_at = lost_at

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.lost_at:
            raise Lost


def fit(saves, lost_at=-1, io=None, validates=True, ckpt_path="auto", **arguments):
    settings = {"max_epochs": 4, "accelerator": "cpu", "callbacks": [saves, Machine(lost_at)], **QUIET, **arguments}
    trainer = Trainer(plugins=[io] if io else None, **settings)
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), 2)
    try:
        trainer.fit(Net(), loader, loader if validates else None, ckpt_path=ckpt_path)
    except Lost:
        trainer.checkpoint_io.wait()
    return trainer


class InMemory(CheckpointIO):
    """Keeps checkpoints in this process, by their paths; links are left to the default."""

    def __init__(self):
        self.kept = {}

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.kept[str(path)] = dict(checkpoint)

    def load_checkpoint(self, path, map_location=None, *, trusted=False, mmap=False, verify=True):
        return self.kept[str(path)]

    def remove_checkpoint(self, path):
        self.kept.pop(str(path), None)

    def verify(self, path):
        self.load_checkpoint(path)

    def exists(self, path):
        return str(path) in self.kept

    def header(self, path):
        return CheckpointIO.header(self, path) if Path(path).exists() else None

    def times(self, folder):
        return {path: number for number, path in enumerate(self.kept) if str(Path(path).parent) == str(folder)}


class InFolders(InMemory):
    """Keeps each in a folder with its name."""

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        Path(path).mkdir(exist_ok=True)
        torch.save(dict(checkpoint), Path(path) / "data")
        self.kept[str(path)] = None

    def load_checkpoint(self, path, map_location=None, *, trusted=False, mmap=False, verify=True):
        return torch.load(Path(path) / "data", weights_only=True)

    def remove_checkpoint(self, path):
        super().remove_checkpoint(path)
        shutil.rmtree(path, ignore_errors=True)


FORMS = {
    "best": {"monitor": "val"},
    "best two": {"monitor": "val", "save_top_k": 2},
    "all": {"monitor": "val", "save_top_k": -1},
    "newest": {},
    "none": {"save_top_k": 0},
    "by steps that do not meet the end": {"every_n_train_steps": 3},
    "seldom": {"every_n_epochs": 3},
    "at validation's end": {"monitor": "val", "save_on_train_epoch_end": False},
    "at the epoch's end": {"monitor": "val", "save_on_train_epoch_end": True},
    "with weights": {"monitor": "val", "safetensors": True},
}
IOS = {"plain": OneFile, "verified": TorchCheckpointIO, "background": AsyncCheckpointIO}


@pytest.mark.parametrize("io", IOS)
@pytest.mark.parametrize("last", [True, "link"])
@pytest.mark.parametrize("form", FORMS)
def test_it_holds_the_end_and_stays_readable_in_a_folder_that_moves(form, last, io, tmp_path):
    if io == "plain" and form == "with weights":
        pytest.skip("safetensors come with lt-checkpoint")
    saves = ModelCheckpoint(tmp_path / "run", save_last=last, **FORMS[form])
    trainer = fit(saves, io=IOS[io](), ckpt_path=None)
    assert saves.last_model_path == str(tmp_path / "run" / "last.ckpt")
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert torch.load(tmp_path / "moved" / "last.ckpt", weights_only=True)["global_step"] == trainer.global_step == 16


@pytest.mark.parametrize("last", [True, "link"])
@pytest.mark.parametrize("arguments", [{}, {"check_val_every_n_epoch": 2}, {"limit_val_batches": 0}])
@pytest.mark.parametrize("moment", [True, False, None])
def test_it_is_written_as_the_run_goes_where_nothing_is_validated(moment, arguments, last, tmp_path):
    saves = ModelCheckpoint(tmp_path, save_last=last, save_on_train_epoch_end=moment)
    validates = "limit_val_batches" in arguments
    fit(saves, lost_at=10, validates=validates, **arguments)
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 8
    fit(ModelCheckpoint(tmp_path, save_last=last, save_on_train_epoch_end=moment), validates=validates, **arguments)
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 16


@pytest.mark.parametrize("last", [True, "link"])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", [InMemory, InFolders])
def test_a_checkpoint_io_of_its_own_place_or_format_has_each_one(kind, wrapped, last, tmp_path):
    class Watch(Callback):
        steps: list[int] = []  # noqa: RUF012

        def on_train_epoch_start(self, trainer, pl_module):
            trainer.checkpoint_io.wait()
            if trainer.current_epoch:
                self.steps.append(store.load_checkpoint(saves.last_model_path)["global_step"])

    store, saves, watch = kind(), ModelCheckpoint(tmp_path, save_last=last, monitor="val", mode="max"), Watch()
    watch.steps = []
    arguments = {"max_epochs": 4, "accelerator": "cpu", "callbacks": [saves, watch], **QUIET}
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), 2)
    Trainer(plugins=[AsyncCheckpointIO(store) if wrapped else store], **arguments).fit(Net(), loader, loader)
    assert watch.steps == [4, 8, 12]
    assert store.load_checkpoint(saves.last_model_path)["global_step"] == 16


def no_links(*_, **__):
    raise PermissionError(1, "Operation not permitted")


PLACES = {
    "links": lambda folder: None,
    "first names gone": lambda folder: [path.unlink() for path in folder.glob("epoch*")],
    "copied and put back": lambda folder: [
        (path.with_suffix(".new").write_bytes(path.read_bytes()), path.with_suffix(".new").replace(path))
        for path in folder.glob("last*.ckpt")
    ],
}


@pytest.mark.parametrize("hard_links", [True, False])
@pytest.mark.parametrize("name", ["last", "last-{epoch}"])
@pytest.mark.parametrize("safetensors", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_each_start_replaces_it_under_its_name(place, safetensors, name, hard_links, tmp_path, monkeypatch):
    if not hard_links:
        monkeypatch.setattr(os, "link", no_links)
    for lost_at in (6, 10, -1):
        saves = ModelCheckpoint(tmp_path, monitor="val", mode="max", save_last=True, safetensors=safetensors)
        saves.CHECKPOINT_NAME_LAST = name
        fit(saves, lost_at)
        PLACES[place](tmp_path)
    ending = [".ckpt", ".safetensors"] if safetensors else [".ckpt"]
    assert sorted(path.name for path in tmp_path.glob("last*")) == [
        f"{name.format(epoch='epoch=3')}{each}" for each in ending
    ]
    assert torch.load(saves.last_model_path, weights_only=True)["global_step"] == 16


def test_a_link_that_leads_nowhere_is_in_nobodys_way(tmp_path):
    (tmp_path / "last.ckpt").symlink_to("gone.ckpt")
    saves = ModelCheckpoint(tmp_path, save_last="link")
    fit(saves)
    assert Path(saves.last_model_path).name == "last.ckpt"


@pytest.mark.parametrize("last", [True, "link"])
def test_of_a_remote_folder_each_start_replaces_it_too(last, tmp_path):
    import fsspec

    folder = f"memory://{tmp_path.name}"
    for lost_at in (6, 10, -1):
        saves = ModelCheckpoint(folder, monitor="val", save_last=last)
        trainer = fit(saves, lost_at)
    assert [path.rsplit("/", 1)[1] for path in sorted(fsspec.filesystem("memory").ls(folder, detail=False))] == [
        "epoch=0-step=4.ckpt",
        "last.ckpt",
    ]
    assert trainer.checkpoint_io.load_checkpoint(saves.last_model_path)["global_step"] == 16


def test_a_name_that_differs_in_case_alone_is_not_taken_for_the_callbacks_own(tmp_path, monkeypatch):
    """As in a folder of macOS or Windows, where both names are one file."""
    monkeypatch.setattr(ModelCheckpoint, "CHECKPOINT_NAME_LAST", "LAST")
    saves = ModelCheckpoint(tmp_path, "last", monitor="val", save_last=True)
    fit(saves, lost_at=6)
    (tmp_path / "LAST.ckpt").unlink()
    (tmp_path / "LAST.ckpt").symlink_to("last.ckpt")
    saves = ModelCheckpoint(tmp_path, "last", monitor="val", save_last=True)
    fit(saves, ckpt_path=tmp_path / "last.ckpt")
    assert torch.load(saves.best_model_path, weights_only=True)["global_step"] == 4
    assert torch.load(saves.last_model_path, weights_only=True)["global_step"] == 16
