"""A file from a stranger can do nothing but be read, whichever way it comes in."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import ModelCheckpoint
from lt_core import LightningModule
from lt_core.errors import CheckpointError, ConfigError, LogError, LtWarning
from lt_data import LightningDataModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(width, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch[0]).mean())

    def test_step(self, batch, batch_idx):
        self.log("test", self.layer(batch[0]).mean())

    def predict_step(self, batch, batch_idx):
        return self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Data(LightningDataModule):
    def __init__(self, size=8):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.ones(8, 4)), 2)

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def trainer(folder=None, **arguments):
    callbacks = [ModelCheckpoint(folder, save_top_k=1, every_n_train_steps=1)] if folder else []
    return Trainer(accelerator="cpu", max_epochs=1, callbacks=callbacks, **QUIET, **arguments)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "code_ran"


@pytest.fixture
def hostile(tmp_path, marker):
    """A real checkpoint in which an object hides among the callbacks' states."""
    fit = trainer(enable_checkpointing=False)
    fit.fit(Net(), datamodule=Data())
    fit.save_checkpoint(tmp_path / "good.ckpt")
    tree = torch.load(tmp_path / "good.ckpt", weights_only=True)
    tree["callbacks"] = {"stranger": Evil(marker)}
    path = tmp_path / "stranger" / "evil.ckpt"
    path.parent.mkdir()
    torch.save(tree, path)
    return path


WAYS = {
    "fit": lambda path: trainer(enable_checkpointing=False).fit(Net(), datamodule=Data(), ckpt_path=path),
    "fit last": lambda path: trainer(path.parent).fit(Net(), datamodule=Data(), ckpt_path="last"),
    "validate": lambda path: trainer().validate(Net(), datamodule=Data(), ckpt_path=path),
    "test": lambda path: trainer().test(Net(), datamodule=Data(), ckpt_path=path),
    "predict": lambda path: trainer().predict(Net(), datamodule=Data(), ckpt_path=path),
    "module": Net.load_from_checkpoint,
    "module by URL": lambda path: Net.load_from_checkpoint(f"file://{path}"),
    "module by an open file": lambda path: Net.load_from_checkpoint(io.BytesIO(path.read_bytes())),
    "datamodule": Data.load_from_checkpoint,
}


@pytest.mark.filterwarnings("ignore:.*LT613")
@pytest.mark.parametrize("way", WAYS)
def test_an_object_in_a_checkpoint_is_refused_and_nothing_runs(way, hostile, marker):
    with pytest.raises(CheckpointError) as raised:
        WAYS[way](hostile)
    assert "mkdir" in str(raised.value) or "no checkpoint found" in str(raised.value)
    assert not marker.exists()


def test_a_folder_that_claims_to_be_a_sharded_checkpoint_is_refused(tmp_path, marker):
    folder = tmp_path / "evil.ckpt"
    folder.mkdir()
    (folder / "rest.ckpt").write_bytes(pickle.dumps(Evil(marker)))
    (folder / ".metadata").write_bytes(pickle.dumps(Evil(marker)))
    try:
        for strategy in ("auto", "fsdp"):
            fit = trainer(enable_checkpointing=False, strategy=strategy, devices=1)
            with pytest.raises((CheckpointError, ConfigError)):
                fit.fit(Net(), datamodule=Data(), ckpt_path=folder)
    finally:
        if torch.distributed.is_initialized():  # fsdp's, which it keeps for the next run of this process
            torch.distributed.destroy_process_group()
    assert not marker.exists()


def test_hyperparameters_in_yaml_make_no_objects(hostile, tmp_path, marker):
    (tmp_path / "hparams.yaml").write_text(f"width: !!python/object/apply:os.mkdir ['{marker}']\n")
    with pytest.warns(LtWarning, match=r"width was saved by name only \(os.mkdir\), so its default is taken"):
        Net.load_from_checkpoint(tmp_path / "good.ckpt", hparams_file=tmp_path / "hparams.yaml")
    assert not marker.exists()


def test_a_configuration_makes_no_objects_and_its_checkpoint_neither(hostile, tmp_path, marker):
    (tmp_path / "run.yaml").write_text(f"trainer:\n  max_epochs: !!python/object/apply:os.mkdir ['{marker}']\n")
    for arguments in (["--config", "run.yaml"], ["--ckpt_path", str(hostile), "--trainer.logger", "false"]):
        command = [sys.executable, "-m", "lt_cli", "fit", "--model", "lt_core.LightningModule", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode != 0, done.stdout
    assert not marker.exists()


def test_paths_in_a_checkpoint_delete_nothing_outside_of_the_runs_folder(tmp_path):
    outside = tmp_path / "precious.ckpt"
    outside.write_text("mine")
    run = tmp_path / "run"
    first = trainer(run)
    first.limit_train_batches = 2
    first.fit(Net(), datamodule=Data())
    path = Path(first.checkpoint_callback.best_model_path)
    tree = torch.load(path, weights_only=True)
    for state in tree["callbacks"].values():
        state.update(
            best_model_path="../precious.ckpt",
            last_model_path=str(outside),
            files=[str(outside), "../precious.ckpt"],
            best_k_models={str(outside): torch.tensor(1.0)},
            newest=str(outside),
        )
    torch.save(tree, path)
    trainer(run).fit(Net(), datamodule=Data(), ckpt_path=path)
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "..", "\0"])
def test_names_of_metrics_lead_nowhere(name, tmp_path):
    class Named(Net):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            self.log(name, loss)
            return loss

    with pytest.raises(LogError):
        trainer(enable_checkpointing=False).fit(Named(), datamodule=Data())
