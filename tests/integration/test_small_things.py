"""Small things of 2.x across packages: what subclasses override, what stands where, what is kept."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_callbacks import EarlyStopping, ModelCheckpoint, ModelSummary, ProgressBar
from lt_core import Callback, LightningModule
from lt_core.errors import LtWarning
from lt_data import CombinedLoader, LightningDataModule
from lt_loops import Trainer
from lt_tuning import LearningRateFinder


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.lr = nn.Linear(1, 1), 0.1

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def loader():
    return DataLoader(torch.ones(4, 1), batch_size=2)


def make_trainer(**arguments):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(**{"accelerator": "cpu", "max_epochs": 1, **quiet, **arguments})


def test_a_module_prints_by_the_bar(capsys):
    class Bar(ProgressBar):
        def print(self, *args, **kwargs):
            said.append(args)

    class Speaks(Net):
        def on_train_epoch_end(self):
            self.print("epoch", self.current_epoch)

    said, bar = [], Bar()
    make_trainer(callbacks=[bar], enable_progress_bar=True).fit(Speaks(), loader())
    bar.disable()
    make_trainer(callbacks=[bar], enable_progress_bar=True).fit(Speaks(), loader())
    Speaks().print("alone")
    assert said == [("epoch", 0)]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in ("epoch 0", "alone")] == ["epoch 0", "alone"]


def test_a_subclass_adds_to_the_metrics_that_checkpoints_go_by(tmp_path):
    class Mine(ModelCheckpoint):
        def _monitor_candidates(self, trainer):
            return {**super()._monitor_candidates(trainer), "mine": torch.tensor(trainer.global_step * 1.5)}

    make_trainer(callbacks=[Mine(tmp_path, monitor="mine", filename="{mine}")]).fit(Net(), loader())
    assert [file.name for file in tmp_path.iterdir()] == ["mine=3.0.ckpt"]


def test_what_fails_in_the_first_step_is_saved_where_asked_for(tmp_path):
    class Fails(Net):
        def training_step(self, batch, batch_idx):
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        make_trainer(callbacks=[ModelCheckpoint(tmp_path, save_on_exception=True)]).fit(Fails(), loader())
    assert [file.name for file in tmp_path.iterdir()] == ["epoch=0-step=0.ckpt"]


def test_what_fails_before_training_begins_is_not_saved(tmp_path):
    class Fails(Net):
        def on_fit_start(self):
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        make_trainer(callbacks=[ModelCheckpoint(tmp_path, save_on_exception=True)]).fit(Fails(), loader())
    assert [file.name for file in tmp_path.iterdir()] == []


def test_the_last_checkpoint_is_a_link_to_the_newest(tmp_path):
    make_trainer(max_epochs=2, callbacks=[ModelCheckpoint(tmp_path, save_last="link")]).fit(Net(), loader())
    assert (tmp_path / "last.ckpt").readlink().name == "epoch=1-step=4.ckpt"


def test_a_search_for_a_rate_ends_where_no_step_returns_a_loss():
    class Never(Net):
        trains_without_loss = True

        def training_step(self, batch, batch_idx):
            return None

    trainer = make_trainer(callbacks=[LearningRateFinder(num_training_steps=5)], enable_checkpointing=False)
    with pytest.warns(LtWarning, match="too few finite losses"):
        trainer.fit(Never(), loader())


def test_own_bar_and_summary_stand_behind_the_users_callbacks(tmp_path):
    class Mine(Callback):
        pass

    users = [Mine(), EarlyStopping("loss")]
    trainer = Trainer(accelerator="cpu", logger=False, default_root_dir=tmp_path, callbacks=users)
    assert trainer.callbacks[:2] == users
    for kind in (ModelSummary, ProgressBar):
        assert any(isinstance(callback, kind) for callback in trainer.callbacks[2:])


def test_a_combined_loader_has_its_loaders_and_a_length_before_it_is_read():
    first, second = DataLoader(range(4)), DataLoader(range(6))
    combined = CombinedLoader({"a": first, "b": [second]}, "max_size")
    assert combined.flattened == [first, second]
    assert combined.iterables == {"a": first, "b": [second]}
    assert len(combined) == 6


def test_a_datamodule_says_how_much_data_it_has():
    class Data(LightningDataModule):
        def train_dataloader(self):
            return loader()

        def val_dataloader(self):
            return [loader(), loader()]

    assert str(Data()).splitlines() == [
        "{Train dataloader: size=4}",
        "{Validation dataloader: 1. size=4 ; 2. size=4}",
        "{Test dataloader: None}",
        "{Predict dataloader: None}",
    ]
