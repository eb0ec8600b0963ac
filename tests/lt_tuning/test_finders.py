import math
from importlib.util import find_spec

import pytest
import torch

from lt_core import LightningModule
from lt_core.errors import ConfigError, LtWarning
from lt_core.logger import DummyLogger
from lt_core.strategy import Strategy
from lt_testing import FakeTrainer
from lt_tuning import BatchSizeFinder, LearningRateFinder, Tuner
from lt_tuning.lr_finder import LearningRateCurve


class Tried(FakeTrainer):
    """Runs the callbacks of a trial over losses that a function of the optimizer gives."""

    loss = staticmethod(lambda lr: 1.0)
    fits = staticmethod(lambda size: True)
    samples = None

    def trial(self, max_steps, **overrides):
        super().trial(max_steps, **overrides)
        module, stopped, limits = self.lightning_module, self.should_stop, self.global_step
        self.should_stop, self.global_step = False, 0
        try:
            for i in range(max_steps * overrides.get("accumulate_grad_batches", 1)):
                size = self.samples or getattr(module, "batch_size", 1)
                batch = torch.zeros(min(size, 100), 1)
                for callback in overrides["callbacks"]:
                    callback.on_train_batch_start(self, module, batch, i)
                if not self.fits(size):
                    raise torch.OutOfMemoryError("CUDA out of memory")
                for callback in overrides["callbacks"]:
                    for optimizer in self.optimizers:
                        callback.on_before_optimizer_step(self, module, optimizer)
                self.global_step += 1
                lr = self.optimizers[0].param_groups[0]["lr"] if self.optimizers else 0.0
                for callback in overrides["callbacks"]:
                    callback.on_train_batch_end(self, module, {"loss": torch.tensor(self.loss(lr))}, batch, i)
                if self.should_stop:
                    break
        finally:
            self.should_stop, self.global_step = stopped, limits


def make_trainer(kind=Tried, lr=1e-3, **attributes):
    module = LightningModule()
    module.lr = lr
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    return kind(lightning_module=module, optimizers=[optimizer], **attributes)


def bowl(lr):
    """Falls most steeply around 1e-3 and explodes above 0.1."""
    return 1.0 - 0.9 / (1.0 + math.exp(-3 * (math.log10(lr) + 3))) + (1e3 * lr if lr > 0.1 else 0.0)


# ---- learning rate ---------------------------------------------------------------------------------------------------


def test_the_steepest_fall_is_suggested_and_taken_over():
    trainer = make_trainer()
    trainer.loss = bowl
    finder = LearningRateFinder(min_lr=1e-6, max_lr=1.0, num_training_steps=200)
    finder.on_fit_start(trainer, trainer.lightning_module)
    rate = finder.optimal_lr.suggestion()
    assert 1e-4 < rate < 1e-1
    assert trainer.lightning_module.lr == rate
    assert trainer.optimizers[0].param_groups[0]["lr"] == rate
    assert trainer.printed[-1] == f"Learning rate set to {rate:.4g} (lr)"


def test_rates_grow_from_the_first_to_the_last():
    for mode, middle in (("linear", 0.5), ("exponential", 0.1)):
        curve = LearningRateCurve(mode, 0.01 if mode == "exponential" else 0.0, 1.0, 3)
        assert [curve.rate(i) for i in range(3)] == pytest.approx([curve.lr_min, middle, 1.0])


def test_the_search_stops_when_the_loss_explodes():
    trainer = make_trainer()
    trainer.loss = lambda lr: 1.0 if lr < 1e-3 else 1e4
    finder = LearningRateFinder(num_training_steps=50)
    finder.on_fit_start(trainer, trainer.lightning_module)
    assert len(finder.optimal_lr.results["lr"]) < 50
    assert "the loss diverged" in trainer.printed[0]


def test_schedulers_begin_at_the_rate_that_was_found():
    class Config:
        def __init__(self, scheduler):
            self.scheduler = scheduler

    trainer = make_trainer(lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(trainer.optimizers[0], lambda epoch: 0.1 * (epoch + 1))
    trainer.lr_scheduler_configs = [Config(scheduler)]
    trainer.loss = bowl
    finder = LearningRateFinder(min_lr=1e-6)
    optimizer = trainer.optimizers[0]
    real_trial = trainer.trial

    def trial(max_steps, **overrides):  # a trial puts optimizers back
        before = optimizer.param_groups[0]["lr"]
        real_trial(max_steps, **overrides)
        optimizer.param_groups[0]["lr"] = before

    trainer.trial = trial
    finder.on_fit_start(trainer, trainer.lightning_module)
    rate = trainer.lightning_module.lr
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * rate)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.2 * rate)


def test_a_resumed_run_keeps_its_rate():
    trainer = make_trainer(global_step=5)
    LearningRateFinder().on_fit_start(trainer, trainer.lightning_module)
    assert trainer.trials == []


def test_losses_that_are_not_finite_give_no_suggestion():
    trainer = make_trainer()
    trainer.loss = lambda lr: math.nan
    with pytest.warns(LtWarning, match="too few finite losses"):
        LearningRateFinder().on_fit_start(trainer, trainer.lightning_module)
    assert trainer.lightning_module.lr == 1e-3


def test_the_curve_survives_as_plain_data():
    finder, other = LearningRateFinder(), LearningRateFinder()
    finder.optimal_lr = LearningRateCurve("exponential", 1e-8, 1, 100)
    finder.optimal_lr.results = {"lr": [0.1, 0.2], "loss": [1.0, 0.5]}
    other.load_state_dict(finder.state_dict())
    assert other.optimal_lr.results == finder.optimal_lr.results


def test_the_plot_marks_the_suggestion():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    curve = LearningRateCurve("exponential", 1e-8, 1, 100)
    curve.results = {"lr": [10 ** (i / 10 - 8) for i in range(60)], "loss": [1 / (1 + i) for i in range(60)]}
    (axes,) = curve.plot(suggest=True).axes
    assert axes.get_legend().get_texts()[0].get_text().startswith("suggestion")


def test_the_plot_names_matplotlib_where_it_is_missing():
    if find_spec("matplotlib") is None:
        with pytest.raises(ConfigError, match="matplotlib"):
            LearningRateCurve("linear", 0, 1, 2).plot()


def test_the_attribute_must_be_there():
    trainer = FakeTrainer(optimizers=make_trainer().optimizers)
    with pytest.raises(ConfigError, match="'lr' or 'learning_rate'"):
        LearningRateFinder().on_fit_start(trainer, trainer.lightning_module)
    with pytest.raises(ConfigError, match="'rate'"):
        LearningRateFinder(attr_name="rate").on_fit_start(trainer, trainer.lightning_module)


@pytest.mark.parametrize(
    "arguments", [{"min_lr": 1.0}, {"min_lr": 0}, {"num_training_steps": 1}, {"mode": "log"}, {"max_lr": "x"}]
)
def test_wrong_searches_are_refused(arguments):
    with pytest.raises(ConfigError, match="LearningRateFinder"):
        LearningRateFinder(**arguments)


# ---- batch size ------------------------------------------------------------------------------------------------------


def sized(limit=None, **attributes):
    trainer = make_trainer(**attributes)
    trainer.lightning_module.batch_size = 7
    trainer.fits = lambda size: limit is None or size <= limit
    return trainer


@pytest.mark.parametrize(
    ("arguments", "limit", "found"),
    [
        ({}, 40, 32),
        ({"mode": "binsearch", "margin": 0.0}, 40, 40),
        ({"mode": "binsearch", "margin": 0.1}, 40, 36),
        ({"max_val": 16}, 40, 16),
        ({"max_trials": 3}, 40, 8),
        ({"init_val": 40}, 40, 40),
        ({}, None, 100),  # as many as there are samples
    ],
)
def test_the_largest_size_that_fits_is_found(arguments, limit, found):
    trainer = sized(limit)
    finder = BatchSizeFinder(**arguments)
    finder.on_fit_start(trainer, trainer.lightning_module)
    assert finder.optimal_batch_size == found
    assert trainer.lightning_module.batch_size == found
    assert trainer.reloads == 1


def test_where_nothing_fits_the_size_stays_and_an_error_says_so():
    trainer = sized(0)
    with pytest.raises(ConfigError, match="not even batches of 2"):
        BatchSizeFinder().on_fit_start(trainer, trainer.lightning_module)
    assert trainer.lightning_module.batch_size == 7


def test_a_size_that_changes_no_batch_is_an_error():
    trainer = sized()
    trainer.samples = 16
    with pytest.raises(ConfigError, match="still had 16 samples"):
        BatchSizeFinder().on_fit_start(trainer, trainer.lightning_module)


def test_a_failed_allocation_of_a_library_is_taken_for_full_memory():
    def fails_above_8(size):
        if size > 8:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
        return True

    trainer, finder = sized(), BatchSizeFinder()
    trainer.fits = fails_above_8
    finder.on_fit_start(trainer, trainer.lightning_module)
    assert finder.optimal_batch_size == 8


def test_another_error_is_not_taken_for_full_memory():
    trainer = sized()

    def fails(size):
        raise RuntimeError("shapes do not fit")

    trainer.fits = fails
    with pytest.raises(RuntimeError, match="shapes"):
        BatchSizeFinder().on_fit_start(trainer, trainer.lightning_module)


def test_memory_that_runs_out_on_another_rank_counts():
    class Two(Strategy):
        def all_reduce(self, tensor, op="mean"):
            assert op == "min"
            return tensor * float(self.module.batch_size <= 16)

    trainer = sized(strategy=Two(), world_size=2)
    trainer.strategy.module = trainer.lightning_module
    finder = BatchSizeFinder()
    finder.on_fit_start(trainer, trainer.lightning_module)
    assert finder.optimal_batch_size == 16
    assert trainer.trials[0]["accumulate_grad_batches"] == 3


# ---- tuner -----------------------------------------------------------------------------------------------------------


class Fitting(Tried):
    """Has a ``fit`` that calls the hooks of its start."""

    def fit(self, model, train=None, val=None, datamodule=None):
        self.seen = [list(self.callbacks), list(self.loggers), self.limit_val_batches]
        for callback in self.callbacks:
            callback.on_fit_start(self, model)
        self.stopped_at_start = self.should_stop


def test_a_tuner_searches_alone_and_leaves_the_trainer_as_it_was():
    trainer = make_trainer(Fitting, callbacks=["theirs"], loggers=["logger"], limit_val_batches=3)
    trainer.loss = bowl
    curve = Tuner(trainer).lr_find(trainer.lightning_module, min_lr=1e-6)
    assert curve.suggestion() == trainer.lightning_module.lr
    assert trainer.stopped_at_start
    assert [type(callback).__name__ for callback in trainer.seen[0]] == ["LearningRateFinder", "_StopAtStart"]
    assert [type(logger) for logger in trainer.seen[1]] == [DummyLogger], "calls of self.logger go nowhere"
    assert trainer.seen[2] == 0
    assert (trainer.callbacks, trainer.loggers, trainer.limit_val_batches) == (["theirs"], ["logger"], 3)
    assert not trainer.should_stop


def test_a_tuner_finds_a_batch_size():
    trainer = make_trainer(Fitting)
    trainer.lightning_module.batch_size = 1
    trainer.fits = lambda size: size <= 10
    assert Tuner(trainer).scale_batch_size(trainer.lightning_module) == 8


def test_a_tuner_says_what_it_cannot_do():
    tuner = Tuner(make_trainer(Fitting))
    with pytest.raises(ConfigError, match="method='validate'"):
        tuner.lr_find(None, method="validate")
    with pytest.raises(ConfigError, match="train_dataloaders"):
        tuner.lr_find(None, dataloaders=[])
    with pytest.raises(ConfigError, match="cannot change loaders"):
        tuner.scale_batch_size(None, train_dataloaders=[1])
