"""How many batches make one optimizer step, by epoch."""

import pytest

from lt_core import LightningModule
from lt_core.errors import ConfigError
from lt_testing import CallbackKit, FakeTrainer
from lt_tuning import GradientAccumulationScheduler


class TestGradientAccumulationScheduler(CallbackKit):
    observes = False

    def make_callback(self, folder):
        return GradientAccumulationScheduler({1: 2})


def test_accumulation_follows_the_schedule_and_the_trainer_gets_its_own_back():
    callback, trainer = GradientAccumulationScheduler({1: 4, 3: 2}), FakeTrainer()
    callback.setup(trainer, trainer.lightning_module, "fit")
    seen = []
    for trainer.current_epoch in range(5):
        callback.on_train_epoch_start(trainer, trainer.lightning_module)
        seen.append(trainer.window_of(trainer.current_epoch))
    callback.teardown(trainer, trainer.lightning_module, "fit")
    assert seen == [1, 4, 4, 2, 2]
    assert trainer.accumulate_grad_batches == 1


def test_an_epoch_resumed_in_its_middle_has_its_count():
    callback, trainer = GradientAccumulationScheduler({1: 4}), FakeTrainer(current_epoch=2)
    callback.setup(trainer, trainer.lightning_module, "fit")
    assert trainer.window_of(2) == 4


@pytest.mark.parametrize("scheduling", [{}, {-1: 2}, {0: 0}, {0: 1.5}, [4]])
def test_wrong_schedules_are_refused(scheduling):
    with pytest.raises(ConfigError, match="GradientAccumulationScheduler"):
        GradientAccumulationScheduler(scheduling)


def test_contradictions_are_refused():
    callback, manual = GradientAccumulationScheduler({0: 2}), LightningModule()
    manual.automatic_optimization = False
    with pytest.raises(ConfigError, match="accumulate_grad_batches=3"):
        callback.setup(FakeTrainer(accumulate_grad_batches=3), LightningModule(), "fit")
    with pytest.raises(ConfigError, match="automatic_optimization"):
        callback.setup(FakeTrainer(), manual, "fit")


def test_a_class_that_a_user_puts_beside_it_is_initialized():
    class Beside:
        def __init__(self):
            self.notes = []

    assert type("Both", (GradientAccumulationScheduler, Beside), {})({0: 2}).notes == []
