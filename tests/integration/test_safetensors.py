"""Weights as safetensors from a Trainer: saved, loaded, refused where a resume is asked for, kept beside the state."""

from pathlib import Path

import pytest
import torch
from torch import nn

from lt import LightningModule, Trainer
from lt.callbacks import ModelCheckpoint
from lt.errors import CheckpointError

safetensors = pytest.importorskip("safetensors.torch")


class Net(LightningModule):
    def __init__(self, sizes=(2, 1)):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(*sizes)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def fitted(folder, epochs=1, ckpt_path=None, **options):
    options.setdefault("enable_checkpointing", False)
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    module = Net()
    trainer.fit(module, torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2), ckpt_path=ckpt_path)
    return trainer, module


def kept(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_a_saved_file_is_safetensors_and_makes_the_module_again(tmp_path):
    trainer, module = fitted(tmp_path)
    trainer.save_checkpoint(tmp_path / "a.safetensors")
    assert sorted(safetensors.load_file(tmp_path / "a.safetensors")) == ["layer.bias", "layer.weight"]
    loaded = Net.load_from_checkpoint(tmp_path / "a.safetensors")
    assert torch.equal(loaded.layer.weight, module.layer.weight)
    assert loaded.hparams.sizes == (2, 1)


def test_a_fit_does_not_resume_from_weights_alone_and_validation_takes_them(tmp_path):
    trainer, _ = fitted(tmp_path)
    trainer.save_checkpoint(tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match="holds weights only.*LT602"):
        fitted(tmp_path, ckpt_path=tmp_path / "a.safetensors")


def test_beside_each_kept_checkpoint_lie_its_weights_and_go_with_it(tmp_path):
    callback = ModelCheckpoint(tmp_path / "kept", save_last=True, safetensors=True)
    _, module = fitted(tmp_path, epochs=3, callbacks=[callback], enable_checkpointing=True)
    names = [Path(name).stem for name in ("epoch=2-step=6.ckpt", "last.ckpt")]
    assert kept(tmp_path / "kept") == sorted(f"{n}.{e}" for n in names for e in ("ckpt", "safetensors"))
    for name in names:
        found = safetensors.load_file(tmp_path / "kept" / f"{name}.safetensors")
        assert torch.equal(found["layer.weight"], module.layer.weight)


def test_a_resumed_run_deletes_the_weights_of_its_predecessor(tmp_path):
    def callback():
        return ModelCheckpoint(tmp_path / "kept", safetensors=True)

    fitted(tmp_path, 1, callbacks=[callback()], enable_checkpointing=True)
    fitted(tmp_path, 2, ckpt_path="last", callbacks=[callback()], enable_checkpointing=True)
    assert kept(tmp_path / "kept") == ["epoch=1-step=4.ckpt", "epoch=1-step=4.safetensors"]


def test_weights_that_somebody_else_put_there_are_not_overwritten(tmp_path):
    theirs = tmp_path / "kept" / "epoch=0-step=2.safetensors"
    theirs.parent.mkdir()
    safetensors.save_file({"w": torch.ones(1)}, theirs)
    callback = ModelCheckpoint(tmp_path / "kept", safetensors=True)
    fitted(tmp_path, callbacks=[callback], enable_checkpointing=True)
    assert list(safetensors.load_file(theirs)) == ["w"]
    assert (tmp_path / "kept" / "epoch=0-step=2-v1.safetensors").is_file()


def test_hyperparameters_that_are_no_text_are_named(tmp_path):
    trainer, module = fitted(tmp_path)
    module.save_hyperparameters({"table": torch.ones(2)})
    with pytest.warns(UserWarning, match=r"hyper_parameters\['table'\].*LT676"):
        trainer.save_checkpoint(tmp_path / "a.safetensors")
