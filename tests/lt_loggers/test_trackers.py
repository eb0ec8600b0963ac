"""What all trackers do, with and without their libraries."""

import re
import sys
from types import SimpleNamespace

import pytest
import torch

from lt_core.errors import ConfigError, LtWarning
from lt_core.plugins import install_hint
from lt_loggers import CometLogger, MLFlowLogger, TrackioLogger, WandbLogger
from lt_loggers.tracker import TrackerLogger


class Service(TrackerLogger):
    """A tracker whose service takes so many rows, and is away then."""

    version = "run"

    def __init__(self):
        super().__init__("", log_model=False, flush_every=1)
        self.takes, self.tries, self.sent = 0, 0, []

    def _lt_send_rows(self, rows):
        self.tries += 1
        taken = rows[: self.takes]
        self.sent += [step for step, _, _ in taken]
        yield len(taken)
        if len(taken) < len(rows):
            raise OSError("the service is away")


def rest(logger):
    """Wait until the thread has done what it was asked to."""
    logger._lt_sender.put(lambda run: None).result()


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("lt_loggers.rows.time", lambda: now[0])
    return now


def test_rows_wait_while_the_service_is_away_and_the_pauses_grow(clock):
    service = Service()
    tried = []
    for step in range(200):
        clock[0] += 1
        before = service.tries
        try:
            service.log_metrics({"loss": 1.0}, step)
        except OSError:
            service.log_metrics({"loss": 1.0}, step)  # as a Trainer does: the row was not taken
        rest(service)
        if service.tries > before:
            tried.append(step)
    assert tried == [0, 5, 15, 35, 75, 155]
    service.takes = 3
    with pytest.raises(OSError, match="away"), pytest.warns(LtWarning, match=r"197 rows are not sent.*\[LT561\]"):
        service.finalize("success")
    service.takes = 1000
    service.finalize("success")
    assert service.sent == list(range(200))


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: WandbLogger(save_dir=folder, offline=True),
        lambda folder: MLFlowLogger(save_dir=folder / "mlruns"),
        lambda folder: CometLogger(online=False, offline_directory=str(folder)),
        lambda folder: TrackioLogger(save_dir=folder),
    ],
    ids=["wandb", "mlflow", "comet_ml", "trackio"],
)
def test_other_ranks_send_nothing(tmp_path, monkeypatch, request, make):
    pytest.importorskip(request.node.callspec.id)
    monkeypatch.setenv("RANK", "1")
    logger = make(tmp_path)
    logger.log_hyperparams({"lr": 0.1})
    logger.log_metrics({"a": 1.0}, 0)
    logger.experiment.log_anything({"x": 1})["y"].z = 3
    logger.log_media("text", "hello", 0)
    logger.finalize("success")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "kind, module, extra",
    [
        (WandbLogger, "wandb", "wandb"),
        (MLFlowLogger, "mlflow", "mlflow"),
        (CometLogger, "comet_ml", "comet"),
        (TrackioLogger, "trackio", "trackio"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch, kind, module, extra):
    monkeypatch.setattr("lt_loggers.tracker.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=f"needs {module}: {re.escape(install_hint(f'lt-loggers[{extra}]'))}"):
        kind()


class Run:
    """What ``wandb.init`` returns, as far as the logger uses it."""

    def __init__(self, runs, **arguments):
        self.id, self.watched, self.rows, self.config = arguments["id"], [], [], {}
        runs[self.id] = self

    def watch(self, model, **how):
        self.watched.append((model, how["log"]))

    def log(self, row):
        self.rows.append(row["trainer/global_step"])

    def define_metric(self, *args, **kwargs):
        """Take it."""

    def finish(self):
        """Take it."""


@pytest.mark.parametrize("resumes", [True, False])
def test_a_model_watched_before_the_fit_is_watched_in_the_run_of_the_fit_alone(tmp_path, monkeypatch, resumes):
    runs, model = {}, torch.nn.Linear(1, 1)
    monkeypatch.setattr("lt_loggers.tracker.find_spec", lambda name: True)
    library = SimpleNamespace(run=None, init=lambda **arguments: Run(runs, **arguments))
    monkeypatch.setitem(sys.modules, "wandb", library)
    logger = WandbLogger(save_dir=tmp_path)
    logger.watch(model, log="all")
    assert not runs
    if resumes:
        logger.load_state_dict({"run_id": "old", "step": 4, "wandb_step": 4})
    logger.claim_version()
    logger.log_metrics({"loss": 1.0}, 5)
    logger.finalize("success")
    logger.watch(other := torch.nn.Linear(1, 1))
    assert list(runs) == ["old" if resumes else logger.version]
    (run,) = runs.values()
    assert (run.watched, run.rows) == ([(model, "all"), (other, "gradients")], [5])
