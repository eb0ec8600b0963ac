"""``default_root_dir`` and ``save_dir`` behind a URL, through fsspec."""

from pathlib import Path

import fsspec
import pytest
import torch

from lt_callbacks import profilers
from lt_core import LightningModule
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.fixture
def remote():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def fit(epochs, ckpt_path=None, module=None, **arguments):
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", max_epochs=epochs, log_every_n_steps=1, **quiet, **arguments)
    trainer.fit(module or Net(), [torch.ones(2, 2)] * 3, ckpt_path=ckpt_path)
    return trainer


@pytest.mark.parametrize("logger", ["csv", "tensorboard", False])
def test_a_remote_default_root_dir_holds_logs_and_checkpoints_and_resumes(remote, tmp_path, monkeypatch, logger):
    if logger == "tensorboard":
        pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    first = fit(1, default_root_dir="memory://afar", logger=logger)
    again = fit(2, default_root_dir="memory://afar", logger=logger, ckpt_path=first.checkpoint_callback.best_model_path)
    assert again.global_step == 6
    names = {Path(file).name.partition(".")[0] for file in remote.find("/afar")}
    expected = {"csv": ["metrics", "hparams"], "tensorboard": ["events", "hparams"], False: []}[logger]
    assert names == {"epoch=0-step=3", "epoch=1-step=6", *expected}  # the first was named by its path
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("profiler", ["SimpleProfiler", "AdvancedProfiler", "PyTorchProfiler"])
def test_profiles_go_to_a_remote_folder(remote, tmp_path, monkeypatch, profiler):
    monkeypatch.chdir(tmp_path)
    made = getattr(profilers, profiler)(filename="report")
    fit(2, default_root_dir="memory://afar", logger=False, profiler=made, enable_checkpointing=False)
    names = [Path(file).name for file in remote.find("/afar")]
    assert "fit-report-0.txt" in names
    assert any(name.endswith(".pt.trace.json") for name in names) is (profiler == "PyTorchProfiler")
    assert not list(tmp_path.iterdir())


def test_media_that_no_logger_shows_are_files_in_a_remote_folder(remote, tmp_path, monkeypatch):
    class Drawing(Net):
        def training_step(self, batch, batch_idx):
            if batch_idx == 0:
                self.trainer.log_media("a/picture", torch.zeros(3, 4, 4))
            return super().training_step(batch, batch_idx)

    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="LT521"):
        fit(1, module=Drawing(), default_root_dir="memory://afar", logger="csv", enable_checkpointing=False)
    assert remote.exists("/afar/lightning_logs/version_0/media/a/picture/step_00000000.png")
    assert not list(tmp_path.iterdir())
