"""``ckpt_path="auto"`` where a tracker has no folder of its own: its runs lie below the Trainer's, by name and id."""

import itertools
import threading
from types import SimpleNamespace

import pytest
import torch
from tests.patience import PATIENCE

import lt as pl
from lt_core.errors import LtWarning
from lt_loggers import MLFlowLogger, TrackerLogger

IDS = itertools.count()


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Tracker(TrackerLogger):
    """One of a stranger's, as Comet's and OpenTelemetry's are."""

    def __init__(self, project):
        super().__init__("", log_model=False, name=project)

    def _lt_open(self):
        return self.claim_version()

    def _lt_send_rows(self, rows):
        yield len(rows)


class OnServer(MLFlowLogger):
    """MLflow's, with a client that answers by itself, or never."""

    patience = 0.2
    talks = threading.Event()

    def __init__(self, experiment):
        super().__init__(experiment, tracking_uri="http://127.0.0.1:9")

    def _lt_open(self):
        assert self.talks.wait(PATIENCE)
        if self.version is None:
            self._version = f"r{next(IDS)}"
        self._name = {"digits": "7", "/Users/me/digits": "8"}[self._experiment_name]
        return SimpleNamespace(set_terminated=lambda *args: None)

    def _lt_send_rows(self, rows):
        yield len(rows)

    def _lt_send_hparams(self):
        """Take them."""


@pytest.fixture(autouse=True)
def mlflow(monkeypatch):
    monkeypatch.setattr("lt_loggers.tracker.find_spec", lambda name: True)
    OnServer.talks.set()
    yield
    OnServer.talks.set()


def fit(folder, logger, epochs, ckpt_path="auto"):
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary"), False)
    trainer = pl.Trainer(default_root_dir=folder, logger=logger, max_epochs=epochs, accelerator="cpu", **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.ones(4, 2)), ckpt_path=ckpt_path)
    return trainer


KINDS = [lambda: Tracker("digits"), lambda: OnServer("digits"), lambda: OnServer("/Users/me/digits")]


@pytest.mark.parametrize("make", KINDS, ids=["another tracker", "MLflow", "MLflow, a name like a path"])
def test_a_restarted_job_goes_on_in_its_run(tmp_path, make):
    first = fit(tmp_path, make(), 1)
    second = fit(tmp_path, make(), 3)
    assert second.global_step - first.global_step == 8
    assert second.logger.version == first.logger.version
    assert {path.resolve().parent for path in tmp_path.rglob("*.ckpt")} == {
        tmp_path / str(second.logger.name) / second.logger.version / "checkpoints"
    }


def test_it_goes_on_beside_an_mlflow_server_that_is_silent_now(tmp_path):
    first = fit(tmp_path, OnServer("digits"), 1)
    OnServer.talks.clear()
    logger = OnServer("digits")
    with pytest.warns(LtWarning, match="LT56[01]"):  # the wait of a silent end is over at once
        second = fit(tmp_path, logger, 3)
    assert second.global_step == 12
    assert logger.version == first.logger.version


def test_the_runs_of_another_experiment_are_not_resumed(tmp_path):
    first = fit(tmp_path, OnServer("/Users/me/digits"), 1)
    assert fit(tmp_path, OnServer("digits"), 1).logger.version != first.logger.version
    first = fit(tmp_path, Tracker("letters"), 1)
    assert fit(tmp_path, Tracker("words"), 1).logger.version != first.logger.version


def test_where_links_cannot_be_made_nothing_fails(tmp_path, monkeypatch):
    def refuse(self, target):
        raise OSError("no links here")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    assert fit(tmp_path, OnServer("digits"), 1).global_step == 4
