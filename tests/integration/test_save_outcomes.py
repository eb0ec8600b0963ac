"""Each save has its own outcome; a fit whose newest state that was to be saved is not on disk ends with an error."""

import errno
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch
from tests import processes
from torch import nn

from lt_callbacks import ModelCheckpoint
from lt_checkpoint import AsyncCheckpointIO
from lt_core import CheckpointIO, LightningModule
from lt_core.errors import CheckpointError
from lt_loops import Trainer

pytestmark = pytest.mark.filterwarnings("ignore:.*LT640")
QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Full(CheckpointIO):
    """A disk that is full for some files."""

    def __init__(self, refused):
        self.refused = refused

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        if any(word in Path(path).name for word in self.refused):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().save_checkpoint(checkpoint, path, storage_options)


class SaysNoPath(AsyncCheckpointIO):
    """A writer of an older package, which does not say which save failed."""

    failures = CheckpointIO.failures


IOS = {"at once": Full, "behind": lambda words: AsyncCheckpointIO(Full(words)), "older": lambda w: SaysNoPath(Full(w))}


def saving(folder, name):
    monitor = "loss" if name == "bad" else None
    return ModelCheckpoint(folder, filename=name + "{step}", monitor=monitor, every_n_train_steps=2, save_top_k=-1)


def fit(io, *callbacks, steps=8):
    trainer = Trainer(accelerator="cpu", max_steps=steps, callbacks=list(callbacks), plugins=[io], **QUIET)
    trainer.fit(Net(), [torch.ones(2, 2)] * steps)
    return trainer


@pytest.mark.parametrize("io", IOS)
@pytest.mark.parametrize("order", [("bad", "good"), ("good", "bad")])
def test_a_failed_save_is_no_failure_of_another_callback_s(io, order, tmp_path):
    callbacks = {name: saving(tmp_path, name) for name in order}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(IOS[io](["bad"]), *callbacks.values())
    assert all("bad" in str(each.message) for each in said if "LT640" in str(each.message))
    assert len(list(tmp_path.glob("good*"))) == 4
    assert Path(callbacks["good"].best_model_path).name == "goodstep=8.ckpt"
    assert callbacks["bad"].best_model_path == ""


@pytest.mark.parametrize("io", IOS)
def test_a_disk_that_is_full_until_the_end_is_an_error_though_an_earlier_save_succeeded(io, tmp_path):
    keep = saving(tmp_path, "a")
    with pytest.raises(CheckpointError, match=r"last state that was to be saved is not on disk: .*LT641"):
        fit(IOS[io](["step=6", "step=8"]), keep)
    assert Path(keep.best_model_path).name == "astep=4.ckpt"


@pytest.mark.parametrize("io", IOS)
def test_a_later_save_that_succeeds_makes_it_good(io, tmp_path):
    fit(IOS[io](["step=4", "step=6"]), saving(tmp_path, "a"))
    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == ["astep=2.ckpt", "astep=8.ckpt"]


def test_weights_on_disk_are_not_the_state_that_was_asked_for(tmp_path):
    weights = ModelCheckpoint(tmp_path, filename="w{step}", every_n_train_steps=8, save_weights_only=True)
    with pytest.raises(CheckpointError, match="LT641"):
        fit(Full(["a"]), saving(tmp_path, "a"), weights)


def test_a_checkpoint_that_the_user_saves_does_not_hide_a_failure_before_it(tmp_path):
    keep = saving(tmp_path, "bad")

    class Saves(Net):
        def on_train_batch_start(self, batch, batch_idx):
            if batch_idx == 5:
                self.trainer.save_checkpoint(tmp_path / "mine.ckpt")

    trainer = Trainer(
        accelerator="cpu", max_steps=6, callbacks=[keep], plugins=[AsyncCheckpointIO(Full(["step=4"]))], **QUIET
    )
    trainer.fit(Saves(), [torch.ones(2, 2)] * 6)
    assert sorted(Path(path).name for path in keep.kept_paths()) == ["badstep=2.ckpt", "badstep=6.ckpt"]
    assert (tmp_path / "mine.ckpt").exists()


def test_a_link_that_fails_in_the_background_loses_no_checkpoint(tmp_path):
    class NoLinks(CheckpointIO):
        def add_name(self, target, name):
            raise CheckpointError(f"{name} could not be made.")

    keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=8, save_last=True)
    with pytest.warns(UserWarning, match=r"last\.ckpt could not be made\..*no checkpoint is lost.*LT620"):
        fit(AsyncCheckpointIO(NoLinks()), keep)
    assert Path(keep.best_model_path).exists()


class Falls(Net):
    """Its validation metric is given for each epoch."""

    values = (5.0, 4.0, 1.0, 2.0, 3.0, 3.5)

    def validation_step(self, batch, batch_idx):
        while self.trainer.checkpoint_io.is_writing():  # nobody knows yet whether that fails
            time.sleep(0.001)
        self.log("val", self.values[self.trainer.current_epoch])


@pytest.mark.parametrize("io", IOS)
def test_a_best_one_that_was_not_written_is_no_best_one_for_the_next_save(io, tmp_path):
    saves = ModelCheckpoint(tmp_path, monitor="val", filename="{epoch}")
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=6,
        callbacks=saves,
        plugins=[IOS[io](["epoch=2"])],
        num_sanity_val_steps=0,
        **QUIET,
    )
    trainer.fit(Falls(), [torch.ones(2, 2)] * 4, [torch.ones(2, 2)])
    assert [path.name for path in tmp_path.iterdir()] == ["epoch=3.ckpt"]
    assert Path(saves.best_model_path) == tmp_path / "epoch=3.ckpt"


class CannotRemove(AsyncCheckpointIO):
    failures = CheckpointIO.failures

    def __init__(self):
        super().__init__(Stuck())


class Stuck(CheckpointIO):
    def remove_checkpoint(self, path):
        raise OSError(errno.EPERM, "Operation not permitted", str(path))


def test_a_removal_that_fails_is_said_where_the_writer_does_not_say_whose_it_was(tmp_path):
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=1)
    trainer = Trainer(accelerator="cpu", max_epochs=1, callbacks=saves, plugins=[CannotRemove()], **QUIET)
    with pytest.warns(UserWarning, match="Operation not permitted.*LT620"):
        trainer.fit(Net(), [torch.ones(2, 2)] * 6)


SIGNALLED = """
import errno, os, signal, sys, torch
from lt_callbacks import ModelCheckpoint
from lt_core import Callback, CheckpointIO, LightningModule
from lt_loops import Trainer

class Full(CheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        if batch_idx == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

saves = ModelCheckpoint(sys.argv[1])
Trainer(accelerator="cpu", callbacks=saves, plugins=[Full()], logger=False).fit(Net(), [torch.ones(2, 2)] * 8)
"""


def test_a_signal_ends_the_script_with_its_status_although_the_disk_is_full(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SIGNALLED)
    command = [sys.executable, str(script), str(tmp_path / "kept")]
    done = processes.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 143, done.stderr
    assert "CHECKPOINT NOT SAVED" in done.stderr
