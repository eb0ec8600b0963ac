"""Optuna prunes trials, in one process and on ranks; in `nox -s examples`, whose environment holds it."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import lt as pl
from lt.callbacks import OptunaPruning

optuna = pytest.importorskip("optuna")
optuna.logging.set_verbosity(optuna.logging.WARNING)


class Net(pl.LightningModule):
    """Its metric gets worse from trial to trial."""

    def __init__(self, number):
        super().__init__()
        self.layer, self.number = nn.Linear(2, 1), number

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("loss", float(self.number), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def search(folder, **arguments):
    """Return the study of two trials, of which the second is to be pruned at its first report."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}

    def objective(trial):
        pruning = OptunaPruning(trial, "loss")
        trainer = pl.Trainer(max_epochs=3, callbacks=[pruning], default_root_dir=folder, **quiet, **arguments)
        trainer.fit(Net(trial.number), DataLoader(torch.ones(8, 2)), DataLoader(torch.ones(4, 2)))
        assert trainer.current_epoch == 3
        return pruning.reports[-1]

    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    study.optimize(objective, n_trials=2)
    return study


@pytest.mark.parametrize("ranks", [{}, {"strategy": "ddp_fork", "devices": 2}], ids=["here", "on ranks"])
def test_a_trial_that_lags_behind_is_pruned_and_the_study_has_its_reports(ranks, tmp_path):
    study = search(tmp_path, **ranks)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"]
    assert [len(trial.intermediate_values) for trial in study.trials] == [3, 1]
