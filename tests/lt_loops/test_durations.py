"""A fit ends, validates and steps its schedulers at durations of any unit, and at the same places after a resume."""

import time
from datetime import timedelta

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader

from lt_core import Callback, Duration, LightningModule, Logger
from lt_core.errors import ConfigError, HookError
from lt_loops import Trainer

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}
LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]  # tokens of each batch; 52 an epoch


class Words(LightningModule):
    """Batches of texts of several lengths; notes where it validates and at which rate it steps."""

    def __init__(self, interval="epoch"):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.interval = nn.Linear(1, 1), interval
        self.validated, self.rates = [], []

    def count_tokens(self, batch):
        return batch.numel()

    def training_step(self, batch, batch_idx):
        self.rates.append(self.optimizers().param_groups[0]["lr"])
        return self.layer(batch.reshape(-1, 1)).mean()

    def validation_step(self, batch, batch_idx):
        pass

    def on_validation_end(self):
        self.validated.append((self.global_step, self.trainer.global_tokens))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        return [optimizer], [{"scheduler": StepLR(optimizer, 1, 0.5), "interval": self.interval}]

    def train_dataloader(self):
        return DataLoader([torch.ones(length) for length in LENGTHS], batch_size=None)

    def val_dataloader(self):
        return [torch.ones(1)]


def fit(module=None, path=None, callbacks=(), **arguments):
    module = Words() if module is None else module
    arguments = {**QUIET, "max_epochs": 2, **arguments}
    trainer = Trainer(num_sanity_val_steps=0, callbacks=list(callbacks), **arguments)
    return module, trainer.fit(module, ckpt_path=path)


@pytest.mark.parametrize(
    ("longest", "steps", "reason"),
    [
        ("20 tokens", 6, "max_time=20 tokens reached"),
        ("60 tokens", 15, "max_time=60 tokens reached"),
    ],
)
def test_a_fit_ends_with_the_batch_that_reaches_its_tokens(longest, steps, reason):
    _, result = fit(max_time=longest, max_epochs=None)
    assert (result.steps, result.stop_reason) == (steps, reason)
    assert result.tokens == sum((LENGTHS * 2)[:steps])


@pytest.mark.parametrize(
    ("interval", "steps"),
    [
        ("20 tokens", [6, 11, 15, 20, 24]),  # 23, 44, 60, 83 and 104 tokens
        ("5 steps", [5, 10, 15, 20]),
        ("0.25 run", [6, 12, 18, 24]),
        ("2 epochs", [24]),
        ("0.5 epochs", [6, 12, 18, 24]),
    ],
)
def test_validation_comes_at_each_multiple_of_a_duration(interval, steps):
    module, _ = fit(val_check_interval=interval)
    assert [step for step, _ in module.validated] == steps


class Saves(Callback):
    def __init__(self, folder):
        self.folder = folder

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        trainer.request_save(self.folder / f"{trainer.global_step}.ckpt", owner=self)


@pytest.mark.parametrize("at", [1, 5, 6, 7, 12, 14])
def test_a_resume_goes_on_counting(tmp_path, at):
    arguments = {"val_check_interval": "20 tokens", "max_time": "90 tokens", "max_epochs": -1}
    whole, result = fit(Words("10 tokens"), callbacks=[Saves(tmp_path)], **arguments)
    rest, resumed = fit(Words("10 tokens"), tmp_path / f"{at}.ckpt", **arguments)
    assert rest.validated == [there for there in whole.validated if there[0] >= at]
    assert rest.rates == whole.rates[at:]
    assert (resumed.tokens, resumed.steps) == (result.tokens, result.steps)


def test_a_schedule_by_tokens_steps_as_in_the_loop_by_hand():
    module, _ = fit(Words("10 tokens"), max_epochs=1)
    tokens, expected = 0, []
    for length in LENGTHS:
        expected.append(0.5 ** (tokens // 10))
        tokens += length
    assert module.rates == expected


def test_with_accumulation_a_schedule_by_tokens_steps_between_windows():
    module, _ = fit(Words("10 tokens"), max_epochs=1, accumulate_grad_batches=4)
    assert module.rates == [1.0] * 4 + [0.5 ** (9 // 10)] * 4 + [0.5 ** (31 // 10)] * 4


def test_a_step_of_a_schedule_that_waits_for_the_end_of_a_window_is_taken_after_a_resume(tmp_path):
    class SavesInside(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 5:
                trainer.request_save(tmp_path / "inside.ckpt")

    whole, _ = fit(Words("10 tokens"), max_epochs=1, accumulate_grad_batches=4, callbacks=[SavesInside()])
    rest, _ = fit(Words("10 tokens"), tmp_path / "inside.ckpt", max_epochs=1, accumulate_grad_batches=4)
    assert rest.rates == whole.rates[6:]


def test_what_an_epoch_that_was_left_early_has_reached_is_due_after_the_next_batch():
    class Leaves(Words):
        def train_dataloader(self):
            return (torch.ones(1) for _ in range(4))

        def on_train_batch_start(self, batch, batch_idx):
            return -1 if self.current_epoch == 0 and batch_idx == 2 else None

        def on_validation_end(self):
            self.validated.append((self.current_epoch, self.trainer.batch_idx))

    module, _ = fit(
        Leaves(), val_check_interval="0.5 run", check_val_every_n_epoch=None, reload_dataloaders_every_n_epochs=1
    )
    assert module.validated == [(1, 1), (1, 4)]


@pytest.mark.parametrize("written", [("interval", "30 min"), ("interval", "10 tokns")])
def test_a_schedule_by_what_it_cannot_go_by_is_refused(written):
    module = Words(written[1])
    with pytest.raises(HookError, match="interval"):
        fit(module)


def test_tokens_that_nothing_counts_are_asked_for_before_the_first_step():
    class Silent(Words):
        count_tokens = LightningModule.count_tokens

    module = Silent()
    with pytest.raises(ConfigError, match=r"Define count_tokens\(self, batch\)"):
        fit(module, max_time="20 tokens", max_epochs=None)
    assert module.rates == []


def test_a_part_of_a_run_without_end_is_refused_before_the_first_step():
    module = Words()
    with pytest.raises(ConfigError, match="max_time"):
        fit(module, max_epochs=-1, max_time="1 h", val_check_interval="0.1 run")
    assert module.rates == []


def test_samples_are_what_the_loader_says():
    pytest.importorskip("lt_data", reason="counts samples")

    class Rows(Words):
        def train_dataloader(self):
            return DataLoader(torch.ones(20, 1), batch_size=4)

    _, result = fit(Rows(), max_time="10 samples", max_epochs=None)
    assert (result.samples, result.steps) == (12, 3)


def test_the_trainer_answers_how_much_is_done():
    seen = []

    class Asks(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            seen.append({unit: trainer.elapsed(unit) for unit in ("steps", "batches", "epochs", "tokens", "run")})

    fit(callbacks=[Asks()])
    assert seen[0] == {"steps": 12, "batches": 12, "epochs": 1.0, "tokens": 52, "run": 0.5}


def test_the_time_of_training_begins_at_nothing_and_is_saved_in_the_middle_of_an_epoch(tmp_path):
    seen = []

    class Sleeps(Saves):
        def on_train_start(self, trainer, pl_module):
            seen.append((trainer.elapsed("seconds"), trainer.elapsed("seconds", at_start=True)))

        def on_train_batch_end(self, trainer, *args):
            if trainer.global_step == 5:
                time.sleep(0.02)
                super().on_train_batch_end(trainer, *args)

    fit(callbacks=[Sleeps(tmp_path)])
    fit(path=tmp_path / "5.ckpt", callbacks=[Sleeps(tmp_path)])
    assert seen[0] == (0.0, 0.0)
    assert min(seen[1]) >= 0.02


def test_an_unknown_unit_is_refused():
    class Asks(Callback):
        def on_train_start(self, trainer, pl_module):
            trainer.elapsed("step")

    with pytest.raises(ConfigError, match="Did you mean 'steps'"):
        fit(callbacks=[Asks()])


class Steps(Logger):
    def __init__(self):
        super().__init__()
        self.steps = []

    def log_metrics(self, metrics, step):
        self.steps.append(step)


class Logged(Words):
    def training_step(self, batch, batch_idx):
        self.log("length", float(batch.numel()))
        return super().training_step(batch, batch_idx)


def logged(path=None, callbacks=(), **arguments):
    """Return the numbers of the optimizer steps, from 1, whose values went to the logger."""
    logger = Steps()
    fit(Logged(), path, callbacks, logger=logger, **arguments)
    return [step + 1 for step in logger.steps]


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        ("5 steps", [5, 10, 15, 20]),
        ("5 batches", [5, 10, 15, 20]),
        ("20 tokens", [6, 11, 15, 20, 24]),
        ("1 epoch", [12, 24]),
        ("0.5 epochs", [6, 12, 18, 24]),
        ("0.2 run", [5, 10, 15, 20, 24]),
        (Duration(7, "steps"), [7, 14, 21]),
        (timedelta(microseconds=1), list(range(1, 25))),
        ("1 h", []),
    ],
)
def test_values_of_steps_are_logged_at_each_multiple_of_a_duration(every, steps):
    assert logged(log_every_n_steps=every) == steps


def test_with_accumulation_values_are_logged_with_the_step_that_ends_the_window():
    # 20 tokens are reached in batch 6, 40 in 11, 60 in 15, 80 in 20, 100 in 24
    assert logged(log_every_n_steps="20 tokens", accumulate_grad_batches=4) == [2, 3, 4, 5, 6]
    assert logged(log_every_n_steps="1 batch", accumulate_grad_batches=8) == [1, 2, 3, 4]  # 8 and 4 batches an epoch


@pytest.mark.parametrize("at", [5, 6, 7, 11, 13, 18])
@pytest.mark.parametrize("every", ["20 tokens", "5 batches", "0.3 run"])
def test_rows_after_a_resume_are_those_of_the_whole_run(tmp_path, every, at):
    class SavesBatches(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            trainer.request_save(tmp_path / f"{trainer.total_batches}.ckpt", owner=self)

    arguments = {"log_every_n_steps": every, "accumulate_grad_batches": 4}
    whole = logged(callbacks=[SavesBatches()], **arguments)
    rest = logged(tmp_path / f"{at}.ckpt", **arguments)
    assert rest == [step for step in whole if step > at // 4]


def test_another_duration_is_taken_while_it_trains():
    class Rarer(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            assert trainer.log_every_n_steps == (6 if trainer.current_epoch else Duration(20, "tokens"))
            trainer.log_every_n_steps = "6 steps"

    assert logged(callbacks=[Rarer()], log_every_n_steps="20 tokens") == [6, 11, 18, 24]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("30 sheep", "'sheep' is no unit"),
        ("0.5 steps", "whole number of steps"),
        ("50", "Write log_every_n_steps=50, without quotes"),
        (0.1, "or '500 steps', '2 epochs'"),
        (-1, "Write log_every_n_steps=0"),
    ],
)
def test_rows_at_what_is_no_duration_are_refused(wrong, said):
    with pytest.raises(ConfigError, match=said):
        Trainer(**QUIET, log_every_n_steps=wrong)


def test_tokens_can_be_the_axis_of_what_is_logged():
    logger = Steps()
    trainer = Trainer(**{**QUIET, "logger": logger}, max_epochs=1, log_every_n_steps=6)
    trainer.log_axis = "tokens"
    trainer.fit(Logged())
    assert logger.steps == [23, 52]
