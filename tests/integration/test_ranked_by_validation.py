"""A ``ModelCheckpoint`` by steps or time that monitors a metric of validation."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn

from lt_callbacks import ModelCheckpoint
from lt_core import LightningModule
from lt_core.errors import LogError
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Scored(LightningModule):
    """Logs a score of each validation: 3, 1, 2 and so on; the step is what training logs, and its mean."""

    scores = (3.0, 1.0, 2.0)

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.count = 0

    def training_step(self, batch, batch_idx):
        self.log("step_now", float(batch_idx))
        self.log("mean", float(batch_idx), on_step=False, on_epoch=True)
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        pass

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            self.log("score", self.scores[self.count % 3])
            self.count += 1

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def fit(folder, monitor="score", ckpt_path=None, net=Scored, schedule=None, **arguments):
    schedule = schedule or {"every_n_train_steps": 2}
    saves = ModelCheckpoint(folder, filename="{step}", monitor=monitor, save_top_k=2, **schedule)
    data, module = [torch.ones(2, 2)] * 5, net()
    trainer = Trainer(**{"accelerator": "cpu", "max_epochs": 3, **QUIET, **arguments}, callbacks=[saves])
    trainer.fit(module, data, data[:1], ckpt_path=ckpt_path)
    return {Path(path).name: float(score) for path, score in saves.best_k_models.items()}


EVERY_TWO, BY_TIME = {"every_n_train_steps": 2}, {"train_time_interval": timedelta(microseconds=1)}


@pytest.mark.parametrize("schedule", [EVERY_TWO, BY_TIME], ids=["steps", "time"])
@pytest.mark.parametrize("sanity", [0, 1])
def test_the_validation_that_follows_ranks_and_saves(tmp_path, schedule, sanity):
    kept = fit(tmp_path, schedule=schedule, num_sanity_val_steps=sanity)
    assert kept == {"step=10.ckpt": 1.0, "step=15.ckpt": 2.0}


@pytest.mark.filterwarnings("ignore:.*LT516")
def test_a_validation_in_the_middle_of_an_epoch_ranks_what_was_due_before_it(tmp_path):
    kept = fit(tmp_path, max_epochs=1, val_check_interval=3)
    assert kept == {"step=3.ckpt": 3.0}  # what was due at step 4 waits for a validation that does not come


@pytest.mark.filterwarnings("ignore:.*LT362")
def test_training_that_ends_before_a_validation_says_where_its_state_is(tmp_path):
    with pytest.warns(UserWarning, match=r"due every 2 optimizer steps waited.*interrupted.ckpt.*LT516"):
        assert fit(tmp_path, max_epochs=1, check_val_every_n_epoch=2) == {}
    assert torch.load(tmp_path / "interrupted.ckpt")["global_step"] == 5


@pytest.mark.parametrize("schedule", [{"every_n_train_steps": 100}, {"every_n_epochs": 9}])
def test_a_fit_that_ends_before_any_checkpoint_is_due_says_so(tmp_path, schedule, capsys):
    fit(tmp_path, schedule=schedule)
    assert f"No checkpoint: one is due every {next(iter(schedule.values()))}" in capsys.readouterr().out


@pytest.mark.parametrize(("monitor", "steps"), [("step_now", {2, 6}), ("mean", {5, 6})])
def test_a_metric_of_training_is_ranked_where_it_is_there(tmp_path, monitor, steps):
    assert set(fit(tmp_path, monitor=monitor)) == {f"step={step}.ckpt" for step in steps}


def test_a_name_that_nobody_logs_is_an_error_after_the_first_epoch(tmp_path):
    with pytest.raises(LogError, match=r"monitor='scor'.*Did you mean 'score'"):
        fit(tmp_path, monitor="scor", num_sanity_val_steps=0)


def test_a_resume_between_what_is_due_and_its_validation_saves_as_the_whole_run(tmp_path):
    class Stops(Scored):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if self.trainer.global_step == 8:
                self.trainer.request_save(tmp_path / "middle.ckpt")

    class GoesOn(Scored):
        scores = Scored.scores[1:]

    whole = fit(tmp_path / "kept", net=Stops)
    assert fit(tmp_path / "kept", net=GoesOn, ckpt_path=tmp_path / "middle.ckpt") == whole
