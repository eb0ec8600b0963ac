"""What several ModelCheckpoints keep in one folder is there at the end, and nothing else is."""

import re
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import ModelCheckpoint
from lt_checkpoint import AsyncCheckpointIO
from lt_core import Callback, CheckpointIO, LightningModule
from lt_core.errors import LogError, LtWarning
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
LOSSES = (0.5, 0.2, 0.4, 0.1, 0.3)
"""Of each epoch; ``up`` is best where ``val_loss`` is worst."""


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        loss = torch.tensor(LOSSES[self.current_epoch])
        self.log_dict({"val_loss": loss, "up": loss})

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader():
    return DataLoader(TensorDataset(torch.ones(8, 4)), 2)


def fit(*saves, epochs=len(LOSSES), ckpt_path=None, **arguments):
    trainer = Trainer(accelerator="cpu", max_epochs=epochs, callbacks=list(saves), **{**QUIET, **arguments})
    trainer.fit(Net(), loader(), loader(), ckpt_path=ckpt_path)
    return trainer


def named(*saves):
    """Return the names of all files that the callbacks say they keep."""
    paths = {path for cb in saves for path in (cb.best_model_path, cb.last_model_path, *cb.best_k_models)} - {""}
    return sorted(Path(path).name for path in paths)


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


BEST = {"monitor": "val_loss", "save_top_k": 3}
OFTEN = {"every_n_train_steps": 4}
KINDS = {
    "best and newest epoch": (BEST, {"every_n_epochs": 1}),
    "best and every four steps, an epoch's": (BEST, OFTEN),
    "two metrics": ({"monitor": "val_loss", "save_top_k": 2}, {"monitor": "up", "mode": "max", "save_top_k": 2}),
    "two names of the newest": ({**BEST, "save_last": True}, {**OFTEN, "save_last": True}),
    "two links to the newest": ({**BEST, "save_last": "link"}, {**OFTEN, "save_last": "link"}),
    "all and the best": ({"save_top_k": -1, "every_n_epochs": 2}, BEST),
    "one constant name": ({**BEST, "filename": "model"}, {**OFTEN, "filename": "model", "save_last": True}),
    "weights and all": ({**BEST, "save_weights_only": True}, {**OFTEN, "save_last": True}),
}


@pytest.mark.parametrize(("order", "writers"), [((0, 1), [AsyncCheckpointIO]), ((1, 0), [CheckpointIO])])
@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_holds_what_its_callbacks_say_they_keep(kind, order, writers, tmp_path):
    saves = [ModelCheckpoint(tmp_path, **KINDS[kind][index]) for index in order]
    fit(*saves, plugins=[writer() for writer in writers])
    kept = names(tmp_path)
    assert kept == sorted({*named(*saves), *(Path(path).name for cb in saves for path in cb.kept_paths())})
    assert set(named(*saves)) <= set(kept)


def test_the_best_stay_beside_the_newest(tmp_path, capsys):
    best, newest = ModelCheckpoint(tmp_path, **BEST), ModelCheckpoint(tmp_path, every_n_epochs=1)
    fit(best, newest)
    assert {int(re.search(r"epoch=(\d)", name)[1]) for name in map(str, best.best_k_models)} == {1, 3, 4}
    assert Path(newest.best_model_path).name == "epoch=4-step=20-v1.ckpt"
    printed = capsys.readouterr().out
    assert "best epoch=3-step=16.ckpt (val_loss=0.1), 3 kept" in printed
    assert "newest epoch=4-step=20-v1.ckpt" in printed


def test_two_names_of_the_newest_are_two_files(tmp_path):
    saves = [ModelCheckpoint(tmp_path, save_last=True, **OFTEN), ModelCheckpoint(tmp_path, save_last=True, **BEST)]
    fit(*saves)
    assert [Path(cb.last_model_path).name for cb in saves] == ["last.ckpt", "last-v1.ckpt"]


def test_without_a_version_counter_names_are_shared_and_no_file_goes_that_somebody_keeps(tmp_path):
    best = ModelCheckpoint(tmp_path, "{epoch}", enable_version_counter=False, **BEST)
    newest = ModelCheckpoint(tmp_path, "{epoch}", enable_version_counter=False, every_n_epochs=1)
    fit(best, newest)
    assert names(tmp_path) == ["epoch=1.ckpt", "epoch=3.ckpt", "epoch=4.ckpt"] == named(best, newest)


def test_a_folder_by_another_name_is_the_same_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    saves = ModelCheckpoint(tmp_path / "real", **BEST), ModelCheckpoint(tmp_path / "link", every_n_epochs=1)
    fit(*saves)
    assert set(named(*saves)) == set(names(tmp_path / "real"))
    assert Path(saves[1].best_model_path).name == "epoch=4-step=20-v1.ckpt"


LAST = {"monitor": "val_loss", "save_top_k": 2}
moved = pytest.mark.filterwarnings("ignore:.*LT632")


@moved
@pytest.mark.parametrize("own", [{"save_last": True}, {"save_last": "link"}, {"filename": "model", "save_last": True}])
def test_a_run_resumed_in_another_run_s_folder_overwrites_nothing_there(own, tmp_path):
    fit(ModelCheckpoint(tmp_path / "A", **LAST, **own), epochs=3)
    fit(other := ModelCheckpoint(tmp_path / "B", **LAST, **own), epochs=2)
    before = {path.name: path.read_bytes() for path in (tmp_path / "A").iterdir()}
    resumed = ModelCheckpoint(tmp_path / "A", **LAST, **own)
    fit(resumed, epochs=4, ckpt_path=other.last_model_path)
    assert {name: (tmp_path / "A" / name).read_bytes() for name in before} == before
    assert Path(resumed.last_model_path).name == "last-v1.ckpt"


@pytest.mark.parametrize("begun", ["last", "newest"])
def test_a_resumed_run_overwrites_no_last_checkpoint_that_somebody_put_there(begun, tmp_path):
    first = ModelCheckpoint(tmp_path, **LAST, save_last=True)
    fit(first, epochs=2)
    shutil.copy(first.best_model_path if begun == "newest" else first.last_model_path, tmp_path / "mine.ckpt")
    (tmp_path / "last.ckpt").unlink()
    (tmp_path / "last.ckpt").write_text("theirs")
    fit(ModelCheckpoint(tmp_path, **LAST, save_last=True), epochs=4, ckpt_path=tmp_path / "mine.ckpt")
    assert (tmp_path / "last.ckpt").read_text() == "theirs"
    assert (tmp_path / "last-v1.ckpt").exists()


@moved
def test_a_run_that_goes_on_in_a_copied_folder_keeps_the_copy_and_the_newest_goes_on(tmp_path):
    fit(ModelCheckpoint(tmp_path / "old", **LAST, save_last=True), epochs=2)
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    before = (tmp_path / "copy" / "last.ckpt").read_bytes()
    for epochs in (3, 4):
        resumed = ModelCheckpoint(tmp_path / "copy", **LAST, save_last=True)
        trainer = fit(resumed, epochs=epochs, ckpt_path="auto")
        assert (trainer.global_step, Path(resumed.last_model_path).name) == (4 * epochs, "last-v1.ckpt")
    assert (tmp_path / "copy" / "last.ckpt").read_bytes() == before


@moved
def test_without_a_version_counter_a_resumed_run_overwrites(tmp_path):
    fit(ModelCheckpoint(tmp_path / "old", **LAST, save_last=True), epochs=2)
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    resumed = ModelCheckpoint(tmp_path / "copy", **LAST, save_last=True, enable_version_counter=False)
    fit(resumed, epochs=3, ckpt_path="auto")
    assert Path(resumed.last_model_path).name == "last.ckpt"


class Slow(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        time.sleep(1.1 * (batch_idx == 1 and not trainer.current_epoch))


SHORT = {"max_steps": {"max_steps": 2}, "max_time": {"max_time": timedelta(seconds=1)}}


@pytest.mark.parametrize("limit", SHORT)
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize(("save_last", "name"), [(True, "last.ckpt"), (False, "interrupted.ckpt")])
def test_a_run_that_a_limit_ends_before_the_first_validation_keeps_its_state(limit, sanity, save_last, name, tmp_path):
    saves = ModelCheckpoint(tmp_path, monitor="val_loss", save_last=save_last)
    with pytest.warns(LtWarning, match="before this fit's first validation"):
        trainer = fit(saves, *([Slow()] if limit == "max_time" else []), num_sanity_val_steps=sanity, **SHORT[limit])
    assert names(tmp_path) == [name]
    assert torch.load(tmp_path / name, weights_only=True)["global_step"] == trainer.global_step > 0
    fit(saves := ModelCheckpoint(tmp_path, monitor="val_loss", save_last=save_last), epochs=2, ckpt_path="auto")
    assert names(tmp_path) == ["epoch=1-step=8.ckpt", "last.ckpt"]


@pytest.mark.parametrize("ends", [6, 10])
def test_a_resumed_run_that_a_limit_ends_before_it_validates_keeps_its_state(ends, tmp_path):
    fit(ModelCheckpoint(tmp_path, monitor="val_loss"), epochs=1)
    often = {"check_val_every_n_epoch": 3, "max_steps": ends}
    trainer = fit(ModelCheckpoint(tmp_path, monitor="val_loss"), ckpt_path="last", **often)
    assert trainer.global_step == ends
    assert names(tmp_path) == ["epoch=0-step=4.ckpt", "interrupted.ckpt"]
    with pytest.warns(LtWarning, match="trains nothing"):
        fit(ModelCheckpoint(tmp_path, monitor="val_loss"), ckpt_path="auto", **often)
    assert "interrupted.ckpt" in names(tmp_path)


def test_a_monitor_that_no_validation_logs_still_ends_the_run(tmp_path):
    with pytest.raises(LogError, match="val_lss"), pytest.warns(LtWarning, match="val_lss"):
        fit(ModelCheckpoint(tmp_path, monitor="val_lss"))


def test_files_that_vanished_during_the_run_are_named_nowhere_at_its_end(tmp_path, capsys):
    class Vandal(Callback):
        def on_train_end(self, trainer, pl_module):
            trainer.checkpoint_io.wait()
            shutil.rmtree(tmp_path / "kept")

    fit(saves := ModelCheckpoint(tmp_path / "kept", **BEST, save_last=True), Vandal())
    assert (saves.best_model_path, saves.last_model_path, saves.best_k_models) == ("", "", {})
    assert "Checkpoints in" not in capsys.readouterr().out
