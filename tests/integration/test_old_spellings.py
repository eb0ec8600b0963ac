"""The Trainer's arguments as 1.x spelled them, with all packages: what each really makes."""

import warnings

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import (
    EarlyStopping,
    ModelCheckpoint,
    ModelSummary,
    StochasticWeightAveraging,
    TQDMProgressBar,
)


def made(**arguments):
    """Return the Trainer, and what it said."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer = pl.Trainer(**{"logger": False, **arguments})
    return trainer, "; ".join(str(one.message) for one in told)


def has(kind, **attributes):
    def check(trainer):
        found = [cb for cb in trainer.callbacks if isinstance(cb, kind)]
        return len(found) == 1 and all(getattr(found[0], name) == value for name, value in attributes.items())

    return check


def lacks(kind):
    return lambda trainer: not any(isinstance(cb, kind) for cb in trainer.callbacks)


mine, stop = ModelCheckpoint(monitor="val_loss"), EarlyStopping("val_loss")

SPELLINGS = [
    ({"gpus": 0}, "accelerator='cpu'", lambda t: t.strategy.device.type == "cpu"),
    ({"gpus": "0"}, "accelerator='cpu'", lambda t: t.strategy.device.type == "cpu"),
    ({"gpus": []}, "accelerator='cpu'", lambda t: t.strategy.device.type == "cpu"),
    ({"gpus": None}, "", lambda t: t.num_devices == 1),
    ({"num_processes": 1}, "devices=1", lambda t: t.num_devices == 1),
    ({"num_processes": 2, "accelerator": "ddp_cpu"}, "strategy='ddp_spawn'", lambda t: t.world_size == 2),
    ({"num_processes": 2, "accelerator": "ddp_spawn"}, "strategy='ddp_spawn'", lambda t: t.world_size == 2),
    ({"num_processes": 2, "accelerator": "ddp"}, "strategy='ddp'", lambda t: t.world_size == 2),
    ({"num_processes": 2, "distributed_backend": "ddp_cpu"}, "strategy='ddp_spawn'", lambda t: t.world_size == 2),
    ({"precision": 32}, "precision='32-true'", lambda t: t.precision == "32-true"),
    ({"precision": 64}, "precision='64-true'", lambda t: t.precision == "64-true"),
    ({"precision": "bf16"}, "precision='bf16-mixed'", lambda t: t.precision == "bf16-mixed"),
    ({"precision": 16}, "precision='16-mixed'", lambda t: t.precision == "16-mixed"),
    ({"checkpoint_callback": False}, "enable_checkpointing=False", lacks(ModelCheckpoint)),
    ({"checkpoint_callback": True}, "enable_checkpointing=True", has(ModelCheckpoint)),
    ({"checkpoint_callback": mine}, "callbacks=[ModelCheckpoint(...)]", lambda t: t.checkpoint_callback is mine),
    ({"early_stop_callback": stop}, "callbacks=[EarlyStopping", lambda t: t.early_stopping_callback is stop),
    ({"early_stop_callback": True}, "callbacks=[EarlyStopping", has(EarlyStopping, monitor="val_loss")),
    ({"progress_bar_refresh_rate": 0}, "enable_progress_bar=False", lacks(TQDMProgressBar)),
    ({"progress_bar_refresh_rate": 20}, "TQDMProgressBar(refresh_rate=20)", has(TQDMProgressBar, refresh_rate=20)),
    ({"weights_summary": None}, "enable_model_summary=False", lacks(ModelSummary)),
    ({"weights_summary": "top"}, "ModelSummary(max_depth=1)", has(ModelSummary)),
    ({"weights_summary": "full"}, "ModelSummary(max_depth=-1)", has(ModelSummary)),
    ({"stochastic_weight_avg": True}, "StochasticWeightAveraging", has(StochasticWeightAveraging)),
    ({"stochastic_weight_avg": False}, "StochasticWeightAveraging", lacks(StochasticWeightAveraging)),
    ({"prepare_data_per_node": False}, "in the datamodule", lambda t: t.settings.prepare_data_per_node is False),
    ({"resume_from_checkpoint": "a.ckpt"}, "ckpt_path='a.ckpt'", lambda t: t.settings.ckpt_path == "a.ckpt"),
    ({"terminate_on_nan": True}, "detect_anomaly=True", lambda t: t.settings.detect_anomaly),
    ({"replace_sampler_ddp": False}, "use_distributed_sampler", lambda t: not t.settings.use_distributed_sampler),
    ({"reload_dataloaders_every_epoch": True}, "n_epochs=1", lambda t: t.reload_dataloaders_every_n_epochs == 1),
    ({"row_log_interval": 7}, "log_every_n_steps=7", lambda t: t.log_every_n_steps == 7),
    ({"val_percent_check": 0.5}, "limit_val_batches=0.5", lambda t: t.limit_val_batches == 0.5),
    ({"overfit_pct": 0.5}, "overfit_batches=0.5", lambda t: t.overfit_batches == 0.5),
]


@pytest.mark.parametrize(
    ("given", "new", "check"), SPELLINGS, ids=[f"{n} {next(iter(given))}" for n, (given, _, _) in enumerate(SPELLINGS)]
)
def test_a_spelling_of_1x_makes_what_it_made_and_names_the_new_one(given, new, check):
    trainer, said = made(**given)
    assert check(trainer)
    assert new in said
    assert ("is a spelling of 1.x" in said or "is a former spelling" in said) == bool(new)


def test_the_defaults_can_be_read_as_in_1x():
    with pytest.warns(UserWarning, match="default_attributes"):
        defaults = pl.Trainer.default_attributes()
    assert (defaults["max_epochs"], defaults["check_val_every_n_epoch"]) == (None, 1)
    assert "self" not in defaults


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 1)
        self.weights = []

    def training_step(self, batch, batch_idx):
        return (self.layer(batch[0]) - 1).square().mean()

    def on_train_epoch_end(self):
        self.weights.append(self.layer.weight.detach().clone())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore:.*is a spelling of 1.x")
def test_stochastic_weight_avg_averages_the_last_epochs(tmp_path):
    model, data = Line(), DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=4)
    trainer = pl.Trainer(
        stochastic_weight_avg=True,
        max_epochs=5,
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=False,
        checkpoint_callback=False,
        progress_bar_refresh_rate=0,
        weights_summary=None,
    )
    trainer.fit(model, data)
    torch.testing.assert_close(model.layer.weight.detach(), torch.stack(model.weights[3:]).mean(0))
