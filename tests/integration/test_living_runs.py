"""Two processes that would train one run: the second is refused before it touches a file."""

import os
import signal
import time
import warnings

import pytest
import torch
from tests.patience import PATIENCE
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import ModelCheckpoint, OnExceptionCheckpoint
from lt_core import Callback, LightningModule
from lt_core.errors import CheckpointError, LtWarning
from lt_loggers import CSVLogger
from lt_loops import Trainer
from lt_loops.run import lock

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

QUIET = dict.fromkeys(("enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Lives(Callback):
    """Says when the third epoch begins, and stays in it."""

    def __init__(self, pipe):
        self.pipe = pipe

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 2:
            trainer.checkpoint_io.wait()
            os.write(self.pipe, b"1")
            time.sleep(PATIENCE)


def fit(folder, *callbacks, epochs=3, ckpt_path="auto", logger=True, dirpath=None):
    loggers = CSVLogger(folder) if logger else False
    saves = [ModelCheckpoint(dirpath), OnExceptionCheckpoint(folder / "exceptions"), *callbacks]
    settings = {"max_epochs": epochs, "accelerator": "cpu", "log_every_n_steps": 1, "default_root_dir": folder, **QUIET}
    trainer = Trainer(callbacks=saves, logger=loggers, **settings)
    trainer.fit(Net(), DataLoader(TensorDataset(torch.ones(8, 4)), 2), ckpt_path=ckpt_path)
    return trainer


@pytest.fixture
def living(tmp_path, monkeypatch):
    """Give a function that begins a run in another process, and returns its id."""
    monkeypatch.setattr(lock, "_BEAT", 0.05)
    monkeypatch.setattr(lock, "_WATCH", 1.0)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # what torch imports for the first one, each process would
    children = []

    def begin(**arguments):
        lives, says = os.pipe()
        child = os.fork()
        if not child:
            try:
                fit(tmp_path, Lives(says), epochs=10, ckpt_path=None, **arguments)
            finally:
                os._exit(1)
        children.append(child)
        assert os.read(lives, 1) == b"1"
        return child

    yield begin
    for child in children:
        kill(child)


def kill(child):
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("word", ["auto", "last", "path"])
@pytest.mark.parametrize("arguments", [{}, {"logger": False}, {"dirpath": "saves"}])
def test_a_run_that_lives_is_not_resumed_and_none_of_its_files_touched(arguments, word, living, tmp_path):
    if "dirpath" in arguments:
        arguments = {"dirpath": tmp_path / "saves"}
    child = living(**arguments)
    before = contents(tmp_path)
    path = next(path for path in before if path.suffix == ".ckpt") if word == "path" else word
    with pytest.raises(CheckpointError, match=rf"is being trained by process {child} on .*folders of its own.*LT690"):
        fit(tmp_path, ckpt_path=path, **arguments)
    assert contents(tmp_path) == before


def test_after_kill_9_auto_goes_on_at_once(living, tmp_path):
    kill(living())
    assert fit(tmp_path).global_step == 12
    rows = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 13
    assert not list(tmp_path.rglob("*.lock"))


def test_after_kill_9_auto_goes_on_under_another_host_name(living, tmp_path, monkeypatch):
    child = living()
    monkeypatch.setattr(lock, "_host", lambda: "other boot")
    with pytest.raises(CheckpointError, match="LT690"):
        fit(tmp_path)
    kill(child)
    assert fit(tmp_path).global_step == 12


def test_a_run_beside_it_a_branch_and_an_evaluation_are_not_refused(living, tmp_path):
    living()
    path = next(tmp_path.rglob("*.ckpt"))
    assert fit(tmp_path, ckpt_path=None).global_step == 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LtWarning)  # that it goes on elsewhere
        assert fit(tmp_path / "branch", ckpt_path=path).global_step == 12
    Trainer(accelerator="cpu", logger=False, **QUIET).predict(PredictNet(), [torch.ones(2, 4)], ckpt_path=path)


class PredictNet(Net):
    def predict_step(self, batch, batch_idx):
        return self.layer(batch)
