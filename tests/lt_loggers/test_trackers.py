"""What all trackers do, with and without their libraries."""

import pytest

from lt_core.errors import ConfigError
from lt_loggers import CometLogger, MLFlowLogger, WandbLogger


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: WandbLogger(save_dir=folder, offline=True),
        lambda folder: MLFlowLogger(save_dir=folder / "mlruns"),
        lambda folder: CometLogger(online=False, offline_directory=str(folder)),
    ],
    ids=["wandb", "mlflow", "comet_ml"],
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
    [(WandbLogger, "wandb", "wandb"), (MLFlowLogger, "mlflow", "mlflow"), (CometLogger, "comet_ml", "comet")],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch, kind, module, extra):
    monkeypatch.setattr("lt_loggers.tracker.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"needs {module}: pip install 'lt-loggers\[{extra}\]'"):
        kind()
