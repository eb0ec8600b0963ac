"""A checkpoint that somebody names is there; a subclass of ``ModelCheckpoint`` writes its own."""

import shutil
import threading
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import nn

from lt_callbacks import ModelCheckpoint
from lt_checkpoint import AsyncCheckpointIO
from lt_core import Callback, CheckpointIO, LightningModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    """Its loss falls, and it notes what the checkpoint callback names in some of its hooks."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.found = []

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.layer(batch).square().mean())

    def look(self):
        callback = self.trainer.checkpoint_callback
        for path in (callback.best_model_path, callback.last_model_path, *callback.best_k_models):
            self.found.append((Path(path).name, torch.load(path)["global_step"]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Slow(CheckpointIO):
    """Writes when it is let, or after a while."""

    def __init__(self):
        self.may = threading.Event()

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.may.wait(0.1)
        super().save_checkpoint(checkpoint, path, storage_options)


def fit(folder, net, *callbacks, kind=ModelCheckpoint, plugins=(), **arguments):
    torch.manual_seed(0)
    saves = kind(folder, monitor="val_loss", filename="{step}", save_last=True)
    trainer = Trainer(
        **{"accelerator": "cpu", "max_epochs": 2, "num_sanity_val_steps": 0, **QUIET, **arguments},
        callbacks=[*callbacks, saves],
        plugins=list(plugins),
    )
    data = [torch.ones(2, 2)] * 4
    trainer.fit(net, data, data)
    return saves


class AtValidationEnd(Net):
    def on_validation_end(self):
        self.look()


@pytest.mark.parametrize("plugins", [[], [AsyncCheckpointIO]], ids=["at once", "behind"])
def test_what_a_hook_after_the_validation_reads_is_there_and_the_newest(tmp_path, plugins):
    net = AtValidationEnd()
    fit(tmp_path, net, kind=ModelCheckpoint, plugins=[make(Slow()) for make in plugins], val_check_interval=2)
    assert net.found[:3] == [("step=2.ckpt", 2), ("last.ckpt", 2), ("step=2.ckpt", 2)]
    assert net.found[-3:] == [("step=8.ckpt", 8), ("last.ckpt", 8), ("step=8.ckpt", 8)]


def test_a_file_that_was_read_ahead_of_its_boundary_holds_what_it_holds_unread(tmp_path):
    for name, net in (("read", AtValidationEnd), ("unread", Net)):
        torch.manual_seed(1)
        fit(tmp_path / name, net(), val_check_interval=2)
    read, unread = (torch.load(tmp_path / name / "step=8.ckpt") for name in ("read", "unread"))
    for part in (read, unread):
        part["lt"]["position"] = {
            key: n for key, n in part["lt"]["position"].items() if "seconds" not in key and key != "passed"
        }
    assert all(torch.equal(read["state_dict"][key], value) for key, value in unread["state_dict"].items())
    assert read["loops"] == unread["loops"]
    assert read["lt"]["position"] == unread["lt"]["position"]


class Ends(Callback):
    """Reads what is named where a run ends."""

    def __init__(self):
        self.there = {}

    def look(self, hook, trainer):
        self.there[hook] = Path(trainer.checkpoint_callback._lt_store.ranking.best).exists()

    def on_train_end(self, trainer, pl_module):
        self.look("train_end", trainer)

    def on_fit_end(self, trainer, pl_module):
        self.look("fit_end", trainer)

    def on_exception(self, trainer, pl_module, exception):
        self.look("exception", trainer)


def test_hooks_of_the_end_come_after_the_writer(tmp_path):
    ends = Ends()
    fit(tmp_path, Net(), ends, plugins=[AsyncCheckpointIO(Slow())])
    assert ends.there == {"train_end": True, "fit_end": True}


class Fails(Net):
    def on_train_batch_start(self, batch, batch_idx):
        if self.trainer.global_step == 4:
            raise RuntimeError("no more")


def test_on_exception_comes_after_the_writer(tmp_path):
    ends = Ends()
    with pytest.raises(RuntimeError, match="no more"):
        fit(tmp_path, Fails(), ends, plugins=[AsyncCheckpointIO(Slow())])
    assert ends.there == {"exception": True}


def test_a_save_that_an_exception_kept_from_its_boundary_is_not_named(tmp_path):
    class FailsAfter(Net):
        def on_validation_end(self):
            if self.trainer.global_step == 8:
                raise RuntimeError("no more")

    named = []

    class Looks(Callback):
        def on_exception(self, trainer, pl_module, exception):
            named.append(trainer.checkpoint_callback.best_model_path)

    with pytest.raises(RuntimeError, match="no more"):
        fit(tmp_path, FailsAfter(), Looks())
    assert [Path(path).name for path in named] == ["step=4.ckpt"]


class Uploads(ModelCheckpoint):
    """Hands each file on, as people do with a store of their own."""

    uploaded: list

    def _save_checkpoint(self, trainer, filepath):
        super()._save_checkpoint(trainer, filepath)
        type(self).uploaded.append((Path(filepath).name, torch.load(filepath)["global_step"]))


@pytest.fixture
def uploads():
    Uploads.uploaded = []
    return Uploads.uploaded


@pytest.mark.parametrize("plugins", [[], [AsyncCheckpointIO]], ids=["at once", "behind"])
def test_a_subclass_saves_by_its_own_method_and_finds_each_file_complete(tmp_path, uploads, plugins):
    saves = fit(tmp_path, Net(), kind=Uploads, plugins=[make(Slow()) for make in plugins])
    assert uploads == [("step=4.ckpt", 4), ("last.ckpt", 4), ("step=8.ckpt", 8), ("last.ckpt", 8)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.ckpt", "step=8.ckpt"]
    assert Path(saves.best_model_path).name == "step=8.ckpt"


def test_what_a_subclass_saves_is_what_the_loop_would_save(tmp_path, uploads):
    for name, kind in (("own", Uploads), ("loop", ModelCheckpoint)):
        fit(tmp_path / name, Net(), kind=kind)
    own, loop = (torch.load(tmp_path / name / "step=8.ckpt") for name in ("own", "loop"))
    assert own["loops"] == loop["loops"]
    assert own.keys() == loop.keys()
    assert CheckpointIO().header(tmp_path / "own" / "step=8.ckpt").mark


def test_a_resumed_subclass_still_deletes_what_it_replaces(tmp_path, uploads):
    fit(tmp_path, Net(), kind=Uploads)
    torch.manual_seed(0)
    saves = Uploads(tmp_path, monitor="val_loss", filename="{step}", save_last=True)
    trainer = Trainer(accelerator="cpu", max_epochs=3, callbacks=[saves], **QUIET)
    data = [torch.ones(2, 2)] * 4
    trainer.fit(Net(), data, data, ckpt_path=str(tmp_path / "last.ckpt"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.ckpt", "step=12.ckpt"]


@pytest.mark.filterwarnings("ignore:.*LT640")
def test_an_upload_that_fails_is_a_save_that_failed_and_training_goes_on(tmp_path):
    class Offline(ModelCheckpoint):
        def _save_checkpoint(self, trainer, filepath):
            super()._save_checkpoint(trainer, filepath)
            if trainer.global_step == 4:
                raise ConnectionError("the store does not answer")

    saves = fit(tmp_path, Net(), kind=Offline)
    assert Path(saves.best_model_path).name == "step=8.ckpt"


@pytest.mark.parametrize("word", ["path", "last"])
def test_a_file_that_a_fit_was_told_by_its_path_is_not_deleted(tmp_path, word):
    first = fit(tmp_path, Net())
    start = Path(first.best_model_path)
    saves = ModelCheckpoint(tmp_path, monitor="val_loss", filename="{step}", save_last=True)
    quiet = {"accelerator": "cpu", "num_sanity_val_steps": 0, **QUIET}
    data = [torch.ones(2, 2)] * 4
    Trainer(max_epochs=4, callbacks=[saves], **quiet).fit(
        Net(), data, data, ckpt_path=start if word == "path" else word
    )
    assert Path(saves.best_model_path).name == "step=16.ckpt"
    assert start.exists() is (word == "path")


def test_a_checkpoint_callback_says_whether_a_file_is_there(tmp_path):
    class Asks(ModelCheckpoint):
        def on_train_end(self, trainer, pl_module):
            super().on_train_end(trainer, pl_module)
            self.there = [self.file_exists(path, trainer) for path in (self.best_model_path, str(tmp_path / "no.ckpt"))]

    assert fit(tmp_path, Net(), kind=Asks).there == [True, False]


def test_the_results_can_be_set(tmp_path):
    saves = ModelCheckpoint(tmp_path)
    saves.best_model_path = saves.last_model_path = saves.kth_best_model_path = tmp_path / "best.ckpt"
    saves.best_model_score = saves.current_score = torch.tensor(0.5)
    assert saves.best_model_path == saves.last_model_path == str(tmp_path / "best.ckpt")
    assert saves.best_model_score == saves.current_score == 0.5
    saves.kth_value = torch.tensor(2.0)
    assert saves.kth_value == 2.0
    saves.best_k_models = {"a.ckpt": torch.tensor(1.0)}
    assert saves.best_k_models == {"a.ckpt": 1.0}


def test_a_subclass_adds_to_what_is_done_for_the_best_and_for_what_goes(tmp_path):
    class Beside(ModelCheckpoint):
        def _update_best_and_save(self, current, trainer, monitor_candidates):
            super()._update_best_and_save(current, trainer, monitor_candidates)
            if current == self.best_model_score:
                Path(self.best_model_path).with_suffix(".txt").write_text(str(sorted(monitor_candidates)))

        def _remove_checkpoint(self, trainer, filepath):
            super()._remove_checkpoint(trainer, filepath)
            Path(filepath).with_suffix(".txt").unlink()

    fit(tmp_path, Net(), kind=Beside)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "last.ckpt",
        "step=8.ckpt",
        "step=8.txt",
    ]


def test_a_subclass_decides_when_what_and_under_which_name_is_saved(tmp_path):
    class Own(ModelCheckpoint):
        called: ClassVar[list[str]] = []

        def _should_skip_saving_checkpoint(self, trainer):
            return trainer.global_step < 8 or super()._should_skip_saving_checkpoint(trainer)

        def _save_topk_checkpoint(self, trainer, monitor_candidates):
            self.called.append(f"top {monitor_candidates['step']}")
            super()._save_topk_checkpoint(trainer, monitor_candidates)

        def check_monitor_top_k(self, trainer, current=None):
            return trainer.global_step < 16 and super().check_monitor_top_k(trainer, current)

        def _save_last_checkpoint(self, trainer, monitor_candidates):
            self.called.append(f"last {monitor_candidates['step']}")

        def _get_metric_interpolated_filepath_name(self, monitor_candidates, trainer, del_filepath=None):
            path = super()._get_metric_interpolated_filepath_name(monitor_candidates, trainer, del_filepath)
            return path.replace("step=", "own-")

    saves = fit(tmp_path, Net(), kind=Own, max_epochs=4)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["own-12.ckpt"]
    assert saves.best_model_path == str(tmp_path / "own-12.ckpt")
    assert Own.called == [f"{what} {step}" for step in (8, 12, 16) for what in ("top", "last")]


class Folders(ModelCheckpoint):
    """Keeps folders of its own in place of files, as packages do that save a model by their own format."""

    @staticmethod
    def folder_of(filepath):
        return Path(filepath).with_suffix("")

    def _remove_checkpoint(self, trainer, filepath):
        super()._remove_checkpoint(trainer, filepath)
        shutil.rmtree(self.folder_of(filepath))


class FoldersByHook(Folders):
    """As scvi-tools' SaveCheckpoint does."""

    def on_save_checkpoint(self, trainer, *args):
        folder = self.folder_of(self.format_checkpoint_name(self._monitor_candidates(trainer)))
        folder.mkdir()
        (folder / "weight").write_text(str(trainer.global_step))

    def _update_best_and_save(self, current, trainer, monitor_candidates):
        super()._update_best_and_save(current, trainer, monitor_candidates)
        Path(self.best_model_path).unlink(missing_ok=True)
        self.best_model_path = self.best_model_path.removesuffix(".ckpt")


class FoldersBySaving(Folders):
    """Takes the file for a folder where it is saved."""

    def _save_checkpoint(self, trainer, filepath):
        super()._save_checkpoint(trainer, filepath)
        Path(self.best_model_path).unlink()
        folder = self.folder_of(filepath)
        folder.mkdir()
        (folder / "weight").write_text(str(trainer.global_step))
        self.best_model_path = str(folder)


@pytest.mark.parametrize("kind", [FoldersByHook, FoldersBySaving])
def test_a_subclass_that_puts_folders_in_the_place_of_files_keeps_the_best_folder_alone(tmp_path, kind):
    scores = iter([3.0, 1.0, 2.0])

    class Scores(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            pl_module.log("score", next(scores))

    saves = kind(tmp_path, monitor="score", filename="{epoch}")
    trainer = Trainer(accelerator="cpu", max_epochs=3, callbacks=[saves, Scores()], **QUIET)
    trainer.fit(Net(), [torch.ones(2, 2)] * 4)
    assert saves.best_model_path == str(tmp_path / "epoch=1")
    assert saves.best_model_score == 1.0
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["epoch=1", "epoch=1/weight"]
    assert (tmp_path / "epoch=1" / "weight").read_text() == "8"
