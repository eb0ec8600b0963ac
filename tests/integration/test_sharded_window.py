"""FSDP holds the gradients of an unfinished accumulation window unreduced on each rank: a checkpoint says so."""

import pytest
import torch
from torch.utils.data import DataLoader

import lt_checkpoint
from lt_core import Callback, LightningModule
from lt_core.errors import CheckpointError
from lt_loops import Trainer
from lt_parallel import FSDP
from lt_strategies import ForkLauncher

pytestmark = [pytest.mark.fsdp, pytest.mark.filterwarnings("always:.*saved without")]


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Adam(Net):
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


class SavesInWindow(Callback):
    """Saves after the third batch, in the middle of a window."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 2:
            trainer.request_save(self.path)


class SavesAtTheEnd(SavesInWindow):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pass

    def on_train_epoch_end(self, trainer, pl_module):
        trainer.request_save(self.path)


class SavesWeights(SavesInWindow):
    def on_train_end(self, trainer, pl_module):
        trainer.save_checkpoint(self.path, weights_only=True)


def fitted(kind, tmp_path, *callbacks, ckpt_path=None, **arguments):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    module, data = kind(), torch.arange(96.0).view(24, 4) / 96
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy=FSDP(),
        plugins=[ForkLauncher()],
        max_epochs=1,
        accumulate_grad_batches=2,
        callbacks=list(callbacks),
        default_root_dir=tmp_path,
        **quiet,
        **arguments,
    )
    trainer.fit(module, DataLoader(data, batch_size=2), ckpt_path=ckpt_path)
    return module.layer.weight.detach(), trainer.global_step


def test_a_window_whose_gradients_cannot_be_saved_is_begun_anew_and_that_is_said(tmp_path):
    path = tmp_path / "middle.ckpt"
    fitted(Net, tmp_path, SavesInWindow(path))
    tree = torch.load(path, weights_only=True)
    position = tree["lt"]["position"]
    assert tree["gaps"] == {"the gradients of an unfinished accumulation window": "strategy 'fsdp' shards them"}
    assert (position["batch"], position["micro"]) == (3, 0)
    assert fitted(Net, tmp_path, ckpt_path=path)[1] == 3  # one before, then batches 3 and 4, and 5 alone


@pytest.mark.filterwarnings("always:.*was saved on 2 ranks")
def test_one_device_goes_on_from_a_folder_of_shards_as_from_the_file_made_of_it(tmp_path):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    data = torch.arange(96.0).view(24, 4) / 96
    sharded = FSDP(state_dict_type="sharded", launcher="fork")
    saves = SavesAtTheEnd(tmp_path / "parts.ckpt")
    trainer = Trainer(accelerator="cpu", devices=2, strategy=sharded, max_epochs=1, callbacks=[saves], **quiet)
    trainer.fit(Adam(), DataLoader(data, batch_size=2))
    lt_checkpoint.save(lt_checkpoint.load(tmp_path / "parts.ckpt"), tmp_path / "one.ckpt")
    found = []
    for name in ("parts.ckpt", "one.ckpt"):
        module = Adam()
        trainer = Trainer(accelerator="cpu", devices=1, max_epochs=2, **quiet)
        trainer.fit(module, DataLoader(data, batch_size=2), ckpt_path=tmp_path / name)
        (moments,) = {entry["step"].item() for entry in trainer.optimizers[0].state.values()}
        found.append((module.layer.weight.detach(), trainer.global_step, moments))
    assert found[0][1:] == found[1][1:] == (6 + 12, 6 + 12)
    assert torch.equal(found[0][0], found[1][0])


def test_a_folder_of_weights_alone_makes_a_module_and_no_training_goes_on_from_it(tmp_path, capsys):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    path, loader = tmp_path / "weights.ckpt", DataLoader(torch.arange(96.0).view(24, 4) / 96, batch_size=2)
    sharded = FSDP(state_dict_type="sharded", launcher="fork")
    module, saves = Net(), SavesWeights(path)
    Trainer(accelerator="cpu", devices=2, strategy=sharded, max_steps=2, callbacks=[saves], **quiet).fit(module, loader)
    assert path.is_dir()
    assert torch.equal(Net.load_from_checkpoint(path).layer.weight, module.layer.weight)
    with pytest.raises(CheckpointError, match=r"weights.ckpt holds weights only .*load_from_checkpoint.*\[LT602\]"):
        Trainer(accelerator="cpu", max_steps=4, **quiet).fit(Net(), loader, ckpt_path=path)
    assert "Loaded" not in capsys.readouterr().out
