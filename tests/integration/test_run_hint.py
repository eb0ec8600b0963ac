"""A finished run says the command that draws it, where lt-cli is installed and there are files to draw."""

import subprocess
import sys

import pytest
import torch
from tests import processes
from torch.utils.data import DataLoader

pytest.importorskip("lt_cli")

from lt_core import LightningModule, Logger
from lt_loggers import CSVLogger
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(monkeypatch, tmp_path):
    """Train for two steps in ``tmp_path``; return the Trainer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")

    def run(logger, **arguments):
        quiet = {"enable_checkpointing": False, "enable_model_summary": False, "accelerator": "cpu"}
        trainer = Trainer(logger=logger, max_epochs=1, log_every_n_steps=1, **quiet, **arguments)
        trainer.fit(Net(), DataLoader(torch.ones(2, 1)))
        return trainer

    return run


def test_a_finished_run_says_how_to_draw_it_once(fit, capsys):
    trainer = fit(CSVLogger(".", name="my runs"))
    assert capsys.readouterr().out.endswith("Metrics: lt plot 'my runs/version_0'\n")
    trainer.max_epochs = 2
    trainer.fit(trainer.lightning_module, DataLoader(torch.ones(2, 1)))
    assert "lt plot" not in capsys.readouterr().out


def test_the_command_runs_as_it_stands_where_uv_started_the_script(fit, capsys, monkeypatch):
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    fit(CSVLogger(".", name="runs"))
    assert capsys.readouterr().out.endswith("Metrics: uv run lt plot runs/version_0\n")


def test_the_command_runs_as_it_stands_where_lt_is_not_on_the_path(fit, capsys, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    fit(CSVLogger(".", name="runs"))
    assert capsys.readouterr().out.endswith(f"Metrics: {sys.executable} -m lt plot runs/version_0\n")


@pytest.mark.parametrize("settings", [{"enable_progress_bar": False}, {"fast_dev_run": True}])
def test_quiet_and_trial_runs_say_nothing(settings, fit, capsys):
    fit(CSVLogger("."), **settings)
    assert "lt plot" not in capsys.readouterr().out


@pytest.mark.parametrize("logger", [False, Logger()])
def test_without_files_there_is_nothing_to_say(logger, fit, capsys):
    fit(logger)
    assert "lt plot" not in capsys.readouterr().out


@pytest.mark.parametrize("installed", [True, False])
def test_the_command_is_said_where_it_can_draw_alone(installed, fit, capsys, monkeypatch):
    monkeypatch.setattr("lt_cli.runs.metrics.find_spec", lambda name: installed or None)
    fit(CSVLogger(".", name="runs"))
    assert ("lt plot" in capsys.readouterr().out) is installed


def test_the_first_of_several_loggers_that_left_files_is_named(fit, capsys):
    fit([Logger(), CSVLogger(".", name="b"), CSVLogger(".", name="c")])
    assert capsys.readouterr().out.count("lt plot") == 1


def test_the_end_of_a_fit_does_not_import_the_command_line_s_libraries():
    code = "import lt_cli.runs.metrics, sys; print({'yaml', 'jsonargparse', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_hint_runs_as_it_is_printed_where_lt_is_not_on_the_path(tmp_path):
    command = [sys.executable, "-m", "lt", "plot", "nothing-here"]
    done = processes.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "nothing-here" in done.stderr) == (2, True), done.stderr
