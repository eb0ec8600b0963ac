import math
from datetime import timedelta

import pytest
import torch
from torch import nn

from lt_callbacks import LearningRateMonitor, Timer
from lt_core.errors import ConfigError
from lt_core.logger import Logger
from lt_testing import FakeTrainer


class Notes(Logger):
    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))


class Scheduled:
    def __init__(self, optimizer, name=None, interval="epoch"):
        self.optimizer, self.name, self.interval = optimizer, name, interval


def make_trainer(**attributes):
    return FakeTrainer(**{"loggers": [Notes()], "log_every_n_steps": 2, **attributes})


def steps(callback, trainer, count, batch=None):
    module = trainer.lightning_module
    for i in range(count):
        callback.on_train_batch_start(trainer, module, batch, i)
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, module, torch.tensor(0.0), batch, i)


# ---- learning rates --------------------------------------------------------------------------------------------------


def sgd(*lrs, **kwargs):
    return torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": lr, **kwargs} for lr in lrs])


def test_rates_go_to_the_loggers_at_the_steps_that_are_logged():
    callback, trainer = LearningRateMonitor("step"), make_trainer(optimizers=[sgd(0.1)])
    callback.on_train_start(trainer, trainer.lightning_module)
    steps(callback, trainer, 5)
    assert trainer.logger.rows == [(1, {"lr-SGD": 0.1}), (3, {"lr-SGD": 0.1})]
    assert list(callback.lrs["lr-SGD"]) == [0.1, 0.1]


def test_rates_go_to_the_loggers_once_an_epoch():
    callback, trainer = LearningRateMonitor("epoch"), make_trainer(optimizers=[sgd(0.1)])
    callback.on_train_epoch_start(trainer, trainer.lightning_module)
    steps(callback, trainer, 5)
    assert trainer.logger.rows == [(0, {"lr-SGD": 0.1})]


def test_groups_twins_and_schedulers_names_tell_rates_apart():
    first, second, third = sgd(0.1, 0.2), sgd(0.3), sgd(0.4)
    third.param_groups[0]["name"] = "head"
    trainer = make_trainer(optimizers=[first, second, third], lr_scheduler_configs=[Scheduled(second, "warm")])
    LearningRateMonitor().on_train_epoch_start(trainer, trainer.lightning_module)
    ((_, values),) = trainer.logger.rows
    assert values == {"lr-SGD/pg1": 0.1, "lr-SGD/pg2": 0.2, "warm": 0.3, "lr-SGD-1/head": 0.4}


def test_each_rate_is_sent_as_often_as_its_scheduler_moves_it_where_no_interval_is_given():
    each_step, each_epoch = sgd(0.1), torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.2)
    schedules = [Scheduled(each_step, interval="step"), Scheduled(each_epoch, interval="epoch")]
    callback, trainer = LearningRateMonitor(), make_trainer(optimizers=[each_step, each_epoch])
    trainer.lr_scheduler_configs = schedules
    callback.on_train_start(trainer, trainer.lightning_module)
    callback.on_train_epoch_start(trainer, trainer.lightning_module)
    steps(callback, trainer, 4)
    assert trainer.logger.rows == [(0, {"lr-Adam": 0.2}), (1, {"lr-SGD": 0.1}), (3, {"lr-SGD": 0.1})]


def test_under_accumulation_the_rates_of_a_step_are_one_row():
    callback, trainer = LearningRateMonitor("step"), make_trainer(optimizers=[sgd(0.1)])
    callback.on_train_start(trainer, trainer.lightning_module)
    for i in range(8):
        trainer.global_step = i // 2
        callback.on_train_batch_start(trainer, trainer.lightning_module, None, i)
    assert trainer.logger.rows == [(1, {"lr-SGD": 0.1}), (3, {"lr-SGD": 0.1})]


def test_what_was_sent_can_be_read_as_lists_and_by_full_names():
    callback = LearningRateMonitor("epoch", log_momentum=True, log_weight_decay=True)
    trainer = make_trainer(optimizers=[sgd(0.1, momentum=0.5, weight_decay=0.01)])
    callback.on_train_start(trainer, trainer.lightning_module)
    assert (callback.lrs, callback.last_momentum_values) == ({"lr-SGD": []}, {"lr-SGD-momentum": None})
    callback.on_train_epoch_start(trainer, trainer.lightning_module)
    assert (callback.lrs, callback.last_momentum_values) == ({"lr-SGD": [0.1]}, {"lr-SGD-momentum": 0.5})
    assert callback.last_weight_decay_values == {"lr-SGD-weight_decay": 0.01}


def test_momentum_and_weight_decay_on_request():
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.1, betas=(0.8, 0.9), weight_decay=0.01)
    callback = LearningRateMonitor(log_momentum=True, log_weight_decay=True)
    trainer = make_trainer(optimizers=[optimizer])
    callback.on_train_epoch_start(trainer, trainer.lightning_module)
    assert trainer.logger.rows == [(0, {"lr-Adam": 0.1, "lr-Adam-momentum": 0.8, "lr-Adam-weight_decay": 0.01})]


def test_a_monitor_without_a_logger_is_refused():
    trainer = FakeTrainer()
    with pytest.raises(ConfigError, match="the Trainer has none"):
        LearningRateMonitor().on_train_start(trainer, trainer.lightning_module)


def test_an_unknown_interval_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'epoch'"):
        LearningRateMonitor("epochs")


# ---- timer -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hands(monkeypatch):
    now = [0.0]
    for module in ("lt_callbacks.stopping.timer", "lt_core.duration"):
        monkeypatch.setattr(f"{module}.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("duration", ["00:00:01:40", timedelta(seconds=100), {"seconds": 40, "minutes": 1}])
def test_training_ends_when_its_time_is_over(hands, duration):
    timer, trainer = Timer(duration), FakeTrainer()
    timer.on_train_start(trainer, trainer.lightning_module)
    hands[0] = 99.0
    steps_done = timer.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)
    assert (steps_done, trainer.should_stop, timer.time_remaining()) == (None, False, 1.0)
    hands[0] = 100.0
    timer.on_train_batch_end(trainer, trainer.lightning_module, None, None, 1)
    assert trainer.should_stop
    assert trainer.printed == ["Training ends after epoch 0: the time of 0:01:40 is over."]


def test_by_epochs_the_clock_is_looked_at_when_one_ends(hands):
    timer, trainer = Timer(timedelta(seconds=1), interval="epoch"), FakeTrainer()
    timer.on_train_start(trainer, trainer.lightning_module)
    hands[0] = 5.0
    timer.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)
    assert not trainer.should_stop
    timer.on_train_epoch_end(trainer, trainer.lightning_module)
    assert trainer.should_stop


def test_a_resumed_run_has_what_is_left_of_its_time(hands):
    first, second, trainer = Timer(timedelta(seconds=10)), Timer(timedelta(seconds=10)), FakeTrainer()
    first.on_train_start(trainer, trainer.lightning_module)
    hands[0] = 7.0
    second.load_state_dict(first.state_dict())
    second.on_train_start(trainer, trainer.lightning_module)
    assert second.time_remaining() == pytest.approx(3.0)
    hands[0] = 11.0
    second.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)
    assert trainer.should_stop


def test_stages_are_measured_one_by_one(hands):
    timer, trainer = Timer(), FakeTrainer()
    timer.on_train_start(trainer, trainer.lightning_module)
    for _ in range(2):
        timer.on_validation_start(trainer, trainer.lightning_module)
        hands[0] += 3.0
        timer.on_validation_end(trainer, trainer.lightning_module)
    assert timer.time_elapsed("validate") == 6.0
    assert timer.time_elapsed("train") == 6.0
    assert timer.time_elapsed("test") == 0.0
    assert timer.time_remaining() is None
    assert not math.isnan(timer.start_time("train"))


@pytest.mark.parametrize(
    "arguments",
    [
        {"duration": "1:2"},
        {"duration": 5},
        {"duration": {"years": 1}},
        {"interval": "x"},
    ],
)
def test_wrong_timers_are_refused(arguments):
    with pytest.raises(ConfigError, match="Timer"):
        Timer(**arguments)


def test_other_callbacks_can_monitor_a_learning_rate():
    trainer = make_trainer(optimizers=[sgd(0.1)])
    LearningRateMonitor("epoch").on_train_epoch_start(trainer, trainer.lightning_module)
    assert trainer.callback_metrics["lr-SGD"] == 0.1
