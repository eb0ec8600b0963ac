from importlib.util import find_spec

import pytest
import torch
from torch import nn

from lt_core import Duration, LightningModule
from lt_core.accelerator import Accelerator
from lt_core.errors import ConfigError
from lt_core.logger import Logger
from lt_profilers import DeviceStatsMonitor, ThroughputMonitor
from lt_profilers.monitors.chip_flops import available_flops, measure_flops
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


# ---- device ----------------------------------------------------------------------------------------------------------


class Measured(Accelerator):
    device_type = "other"

    def stats(self, device):
        return {"memory_bytes": 7.0}


def test_device_readings_go_to_the_loggers_around_the_batches_that_are_logged():
    callback, trainer = DeviceStatsMonitor(), make_trainer(accelerator=Measured())
    callback.setup(trainer, trainer.lightning_module, "fit")
    steps(callback, trainer, 3)
    assert trainer.logger.rows == [
        (1, {"DeviceStatsMonitor.on_train_batch_start/memory_bytes": 7.0}),
        (2, {"DeviceStatsMonitor.on_train_batch_end/memory_bytes": 7.0}),
    ]


def test_readings_follow_a_duration():
    every = Duration(3, "tokens")
    callback, trainer = DeviceStatsMonitor(), make_trainer(accelerator=Measured(), log_every_n_steps=every)
    callback.setup(trainer, trainer.lightning_module, "fit")
    called = []
    for batch in range(6):  # a token each
        callback.on_train_batch_start(trainer, trainer.lightning_module, None, batch)
        trainer.global_tokens += 1
        callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, batch)
        callback.on_validation_batch_end(trainer, trainer.lightning_module, None, None, batch)
        called += [batch] * len(trainer.logger.rows)
        trainer.logger.rows.clear()
    assert called == [2, 3, 5]


def test_cpu_readings_need_psutil_or_name_it():
    callback, trainer = DeviceStatsMonitor(cpu_stats=True), make_trainer(accelerator=Measured())
    if find_spec("psutil") is None:
        with pytest.raises(ConfigError, match="psutil"):
            callback.setup(trainer, trainer.lightning_module, "fit")
    else:
        callback.setup(trainer, trainer.lightning_module, "fit")
        steps(callback, trainer, 2)
        assert "DeviceStatsMonitor.on_train_batch_end/cpu_percent" in trainer.logger.rows[-1][1]


# ---- throughput ------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("lt_profilers.monitors.throughput.perf_counter", lambda: now[0])
    return now


def test_rates_are_taken_over_the_window_and_pauses_do_not_count(clock):
    class Timed(ThroughputMonitor):
        def on_train_batch_end(self, *args):
            clock[0] += 0.5
            super().on_train_batch_end(*args)

    callback = Timed(length_fn=lambda batch: 30, window_size=2)
    trainer = make_trainer(world_size=2)
    module = trainer.lightning_module
    callback.setup(trainer, module, "fit")
    callback.on_train_start(trainer, module)
    steps(callback, trainer, 2, torch.zeros(4, 3))
    callback.on_validation_start(trainer, module)
    clock[0] += 1000.0
    callback.on_validation_end(trainer, module)
    steps(callback, trainer, 2, torch.zeros(4, 3))
    first, second = (row for _, row in trainer.logger.rows)
    assert first == second | {"train/time": 1.0, "train/batches": 2, "train/samples": 8, "train/lengths": 60}
    assert second["train/time"] == 2.0
    assert second["train/device/batches_per_sec"] == 2.0
    assert second["train/device/samples_per_sec"] == 8.0
    assert second["train/device/items_per_sec"] == 60.0
    assert second["train/samples_per_sec"] == 16.0


def test_flops_come_from_the_module_and_give_the_share_of_the_chip(clock):
    class Told(LightningModule):
        flops_per_batch = 1e9

    callback = ThroughputMonitor(available_flops=4e9)
    trainer = make_trainer(lightning_module=Told(), log_every_n_steps=1)
    callback.setup(trainer, trainer.lightning_module, "fit")
    callback.on_train_start(trainer, trainer.lightning_module)
    clock[0] += 0.5
    steps(callback, trainer, 1, torch.zeros(4))
    ((_, row),) = trainer.logger.rows
    assert row["train/device/flops_per_sec"] == 2e9
    assert row["train/device/mfu"] == 0.5


def test_flops_of_the_first_batch_are_counted_on_request():
    callback, trainer = ThroughputMonitor(measure_flops=True), make_trainer(log_every_n_steps=1)
    module, layer, x = trainer.lightning_module, nn.Linear(8, 4), torch.rand(2, 8)
    callback.setup(trainer, module, "fit")
    callback.on_train_start(trainer, module)
    callback.on_train_batch_start(trainer, module, x, 0)
    layer(x).sum().backward()
    trainer.global_step = 1
    callback.on_train_batch_end(trainer, module, None, x, 0)
    assert callback._lt_flops_per_batch == 2 * (2 * 2 * 8 * 4)  # the forward, and the weight's gradient
    assert "train/device/flops_per_sec" in trainer.logger.rows[0][1]


def test_a_cpu_has_no_known_number_of_operations():
    assert available_flops(torch.device("cpu"), "32-true") is None


def test_flops_are_measured_without_computing_on_the_meta_device():
    with torch.device("meta"):
        model, x = torch.nn.Linear(8, 4, bias=False), torch.randn(2, 8)
    assert measure_flops(model, lambda: model(x)) == 2 * 2 * 8 * 4
    assert measure_flops(model, lambda: model(x), lambda out: out.sum()) == 2 * (2 * 2 * 8 * 4)


@pytest.mark.parametrize("make", [DeviceStatsMonitor, ThroughputMonitor])
def test_a_monitor_without_a_logger_is_refused(make):
    trainer = FakeTrainer()
    with pytest.raises(ConfigError, match="the Trainer has none"):
        make().setup(trainer, trainer.lightning_module, "fit")
