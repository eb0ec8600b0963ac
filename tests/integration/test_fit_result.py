"""What fit returns, with checkpoints, pictures and ranks in processes of their own."""

import pickle
import sys
import types
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.errors import ConfigError


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).pow(2).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.layer(batch[0]).pow(2).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder, **arguments):
    data = DataLoader(TensorDataset(torch.arange(32.0).reshape(16, 2) / 32), batch_size=4)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    checkpoint = ModelCheckpoint(folder, monitor="val_loss")
    given = {"max_epochs": 2, "callbacks": checkpoint, "default_root_dir": folder, "log_every_n_steps": 2}
    return checkpoint, pl.Trainer(**quiet, **given, **arguments).fit(Line(), data, data)


def test_it_names_the_best_checkpoint_and_its_score(tmp_path):
    checkpoint, result = fit(tmp_path, logger="csv")
    assert result.best_checkpoint == checkpoint.best_model_path
    assert result.best_score == pytest.approx(min(result.history["val_loss"]))
    assert pl.Trainer(logger=False, enable_checkpointing=False).validate(
        Line(), DataLoader(TensorDataset(torch.ones(2, 2))), ckpt_path=result.last_checkpoint, verbose=False
    )


@pytest.mark.ddp
def test_ranks_in_other_processes_hand_it_back(tmp_path):
    _, result = fit(tmp_path, logger="csv", strategy="ddp_fork", devices=2)
    assert (len(result.history["val_loss"]), len(result.history["train_loss"]), result.samples) == (2, 2, 32)
    assert Path(result.best_checkpoint).exists()
    assert Path(result.last_checkpoint).exists()
    assert len(pickle.dumps(result)) < 4096


def test_its_picture_has_the_panels_of_lt_plot(tmp_path):
    pytest.importorskip("matplotlib")
    figure = fit(tmp_path, logger="csv")[1].plot(smooth=0.5)
    assert [axes.get_title() for axes in figure.axes] == ["loss"]
    assert len(figure.axes[0].lines) == 4  # two curves, each with its smoothed one


def test_a_metric_that_cannot_be_drawn_is_named(tmp_path):
    pytest.importorskip("matplotlib")
    _, result = fit(tmp_path, logger="csv")
    with pytest.raises(ConfigError, match=r"'lost'.*Did you mean 'loss'.*LT166"):
        result.plot("lost")


def test_a_notebook_shows_the_picture_whatever_matplotlibs_backend(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    tools = types.SimpleNamespace(print_figure=_panels)
    for name in ("IPython", "IPython.core", "IPython.core.pylabtools"):
        monkeypatch.setitem(sys.modules, name, tools)
    figure = fit(tmp_path, logger="csv")[1].plot()
    assert figure._repr_png_() == 1
    assert len(pickle.loads(pickle.dumps(figure)).axes) == 1


def _panels(figure):
    return len(figure.axes)
