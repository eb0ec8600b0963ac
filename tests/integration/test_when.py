"""Each way to say when, the arguments of Lightning and durations alike, comes at the batches of a list made by hand."""

from datetime import timedelta

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_callbacks import ModelCheckpoint, Timer
from lt_core import Callback, LightningModule, Logger
from lt_loops import Trainer

EACH = list(range(1, 25))  # 2 epochs of 12 batches of 2 samples
SAVED = [1, 5, 6, 12, 15]  # the batches of the files from which a fit is resumed
AT_ONCE = timedelta(microseconds=1)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.validated = nn.Linear(1, 1), []

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        pass

    def on_validation_end(self):
        self.validated.append(self.trainer.total_batches)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Steps(Logger):
    def __init__(self):
        super().__init__()
        self.steps = []

    def log_metrics(self, metrics, step):
        self.steps.append(step + 1)


class SavesAt(Callback):
    def __init__(self, folder, batches):
        self.folder, self.batches = folder, batches

    def on_train_batch_end(self, trainer, *args):
        if trainer.total_batches in self.batches:
            trainer.request_save(self.folder / f"{trainer.total_batches}.ckpt")


def fit(path=None, **arguments):
    """Return the module and the trainer after two epochs."""
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary"), False)
    quiet |= {"enable_checkpointing": None if arguments.get("callbacks") else False, "num_sanity_val_steps": 0}
    trainer = Trainer(**quiet | {"accelerator": "cpu", "logger": False, "max_epochs": 2} | arguments)
    module = Net()
    trainer.fit(module, DataLoader(torch.ones(24, 1), 2), DataLoader(torch.ones(2, 1), 2), ckpt_path=path)
    return module, trainer


VALIDATIONS = [
    ({}, [12, 24]),
    ({"val_check_interval": 1.0}, [12, 24]),
    ({"val_check_interval": "1 epoch"}, [12, 24]),
    ({"val_check_interval": 0.25}, [3, 6, 9, 12, 15, 18, 21, 24]),
    ({"val_check_interval": "0.25 epochs"}, [3, 6, 9, 12, 15, 18, 21, 24]),
    ({"val_check_interval": 0.4}, [4, 8, 12, 16, 20, 24]),
    ({"val_check_interval": 0.01}, EACH),
    ({"val_check_interval": 5}, [5, 10, 17, 22]),
    ({"val_check_interval": "5 batches"}, [5, 10, 17, 22]),
    ({"val_check_interval": 5, "limit_train_batches": 10}, [5, 10, 15, 20]),
    ({"val_check_interval": 5, "check_val_every_n_epoch": 2}, [17, 22]),
    ({"val_check_interval": 5, "check_val_every_n_epoch": None}, [5, 10, 15, 20]),
    ({"val_check_interval": "5 batches", "check_val_every_n_epoch": None}, [5, 10, 15, 20]),
    ({"check_val_every_n_epoch": 2}, [24]),
    ({"val_check_interval": "2 epochs"}, [24]),
    ({"val_check_interval": "1.5 epochs"}, [18]),
    ({"val_check_interval": "5 steps"}, [5, 10, 15, 20]),
    ({"val_check_interval": "5 steps", "accumulate_grad_batches": 2}, [10, 20]),
    ({"val_check_interval": "10 samples"}, [5, 10, 15, 20]),
    ({"val_check_interval": "0.25 run"}, [6, 12, 18, 24]),
    ({"val_check_interval": "0.25 run", "check_val_every_n_epoch": None}, [6, 12, 18, 24]),
    ({"val_check_interval": AT_ONCE}, EACH),
    ({"val_check_interval": "1 h"}, []),
    ({"val_check_interval": "0 s"}, EACH),
]


@pytest.mark.filterwarnings("ignore:.*LT362")  # an hour is behind the end
@pytest.mark.parametrize(("arguments", "batches"), VALIDATIONS)
def test_validations_come_at_these_batches(arguments, batches):
    assert fit(**arguments)[0].validated == batches


@pytest.mark.filterwarnings("ignore:.*LT362")
@pytest.mark.parametrize(("arguments", "batches"), VALIDATIONS)
def test_a_resume_validates_at_the_batches_that_are_left(tmp_path, arguments, batches):
    fit(callbacks=[SavesAt(tmp_path, SAVED)], enable_checkpointing=False, **arguments)
    validated = {at: fit(tmp_path / f"{at}.ckpt", **arguments)[0].validated for at in SAVED}
    # saved before the validation there
    assert validated == {at: [batch for batch in batches if batch >= at] for at in SAVED}


@pytest.mark.parametrize(
    ("arguments", "batch"),
    [
        ({"max_steps": 7}, 7),
        ({"max_steps": 7, "accumulate_grad_batches": 2}, 14),
        ({"max_epochs": None, "max_time": "7 steps"}, 7),
        ({"max_epochs": 1}, 12),
        ({"max_epochs": None, "max_time": "1 epoch"}, 12),
        ({"max_epochs": None, "max_time": "13 samples"}, 7),
        ({"max_epochs": None, "max_time": "13 samples", "accumulate_grad_batches": 2}, 8),
        ({"max_time": "0 s"}, 0),
        ({"max_time": AT_ONCE}, 0),
        ({"max_epochs": None, "max_time": AT_ONCE}, 0),
        ({"max_time": "1 h"}, 24),
        ({"callbacks": [Timer(AT_ONCE)]}, 0),
        ({"callbacks": [Timer(AT_ONCE)], "min_steps": 7}, 7),
        ({"callbacks": [Timer(AT_ONCE)], "min_epochs": 1}, 12),
        ({"callbacks": [Timer("1 h")]}, 24),
    ],
)
def test_training_ends_after_this_batch(tmp_path, arguments, batch):
    _, trainer = fit(default_root_dir=tmp_path, **arguments)
    assert trainer.total_batches == batch


@pytest.mark.parametrize(
    ("when", "batches"),
    [
        ({}, [12, 24]),
        ({"every_n_epochs": 1}, [12, 24]),
        ({"every": "1 epoch"}, [12, 24]),
        ({"every_n_epochs": 2}, [24]),
        ({"every": "2 epochs"}, [24]),
        ({"every": "0.5 epochs"}, [6, 12, 18, 24]),
        ({"every_n_train_steps": 5}, [5, 10, 15, 20]),
        ({"every": "5 steps"}, [5, 10, 15, 20]),
        ({"every": "5 batches"}, [5, 10, 15, 20]),
        ({"every": "10 samples"}, [5, 10, 15, 20]),
        ({"every": "0.25 run"}, [6, 12, 18, 24]),
        ({"train_time_interval": AT_ONCE}, EACH),
        ({"every": AT_ONCE}, EACH),
        ({"train_time_interval": "1 h"}, []),
        ({"every": "1 h"}, []),
    ],
)
def test_checkpoints_are_saved_at_these_batches(tmp_path, when, batches):
    fit(callbacks=[ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, **when)])
    assert sorted(int(path.stem.removeprefix("step=")) for path in tmp_path.glob("*.ckpt")) == batches


@pytest.mark.parametrize(
    ("every", "accumulate", "steps"),
    [
        (5, 1, [5, 10, 15, 20]),
        ("5 steps", 1, [5, 10, 15, 20]),
        ("5 batches", 1, [5, 10, 15, 20]),
        ("10 samples", 1, [5, 10, 15, 20]),
        ("0.25 run", 1, [6, 12, 18, 24]),
        ("1 epoch", 1, [12, 24]),
        (AT_ONCE, 1, EACH),
        (1, 1, EACH),
        (0, 1, []),
        (5, 2, [5, 10]),
        ("5 steps", 2, [5, 10]),
        ("5 batches", 2, [3, 5, 8, 10]),  # the steps that end with batches 6, 10, 16 and 20
    ],
)
def test_rows_are_sent_at_these_steps(tmp_path, every, accumulate, steps):
    arguments = {"log_every_n_steps": every, "accumulate_grad_batches": accumulate}
    fit(callbacks=[SavesAt(tmp_path, SAVED)], enable_checkpointing=False, logger=Steps(), **arguments)
    loggers = {at: Steps() for at in [None, *SAVED]}
    for at, logger in loggers.items():
        fit(at and tmp_path / f"{at}.ckpt", logger=logger, limit_val_batches=0, **arguments)
    sent = {at: logger.steps for at, logger in loggers.items()}
    assert sent == {at: [step for step in steps if step > (at or 0) // accumulate] for at in loggers}
