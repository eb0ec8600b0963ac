"""Comet in offline mode, read back from its archive; skipped where comet_ml is not installed."""

import json
import zipfile

import pytest
import torch

from lt_core.errors import LtDeprecationWarning
from lt_loggers import CometLogger
from lt_testing.logger import examples_of_media

pytest.importorskip("comet_ml")
QUIET = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
pytestmark = pytest.mark.filterwarnings(*QUIET)


def test_comet_offline_writes_an_archive(tmp_path):
    logger = CometLogger(online=False, project="p", offline_directory=str(tmp_path), prefix="run")
    key = logger.claim_version()
    logger.log_hyperparams({"lr": 0.1, "net": {"depth": 3}})
    for step in range(3):
        logger.log_metrics({"loss": 1.0 * step, "epoch": 0}, step)
    shown = [logger.log_media(f"m/{type(media).__name__}", media, 1) for media in examples_of_media()]
    logger.log_graph(torch.nn.Linear(2, 3))
    logger.finalize("success")
    logger.experiment.end()
    (archive,) = tmp_path.glob("*.zip")
    messages = [json.loads(line) for line in zipfile.ZipFile(archive).read("messages.json").splitlines()]
    metrics = [m["payload"]["metric"] for m in messages if m["type"] == "metric_msg"]
    losses = {m["step"]: m["metricValue"] for m in metrics if m["metricName"] == "run_loss"}
    assert losses == {0: 0.0, 1: 1.0, 2: 2.0}
    assert shown == [True] * 7
    assert key in archive.name


def test_comet_takes_its_older_names(tmp_path):
    with pytest.warns(LtDeprecationWarning, match="project_name"):
        logger = CometLogger(project_name="old", save_dir=tmp_path)
    assert (logger.name, logger.save_dir) == ("old", str(tmp_path))
