from datetime import timedelta

import pytest
import torch

from lt_callbacks import EarlyStopping, Timer
from lt_callbacks.stopping.early_stopping import EarlyStoppingReason
from lt_core.errors import ConfigError, LogError, LtWarning
from lt_core.strategy import Strategy
from lt_testing import FakeTrainer


def checks(callback, values, trainer=None, metric="val_loss"):
    """Feed one value an epoch; return the number of epochs run."""
    trainer = trainer or FakeTrainer()
    for epoch, value in enumerate(values):
        trainer.current_epoch = epoch
        trainer.callback_metrics = {metric: torch.as_tensor(value)}
        callback.on_validation_end(trainer, trainer.lightning_module)
        callback.on_train_epoch_end(trainer, trainer.lightning_module)
        if trainer.should_stop:
            return epoch + 1
    return len(values)


@pytest.mark.parametrize(
    ("arguments", "values", "epochs"),
    [
        ({"patience": 2}, [3.0, 2.0, 2.5, 2.5, 2.5], 4),
        ({"patience": 2, "mode": "max"}, [1.0, 2.0, 1.5, 1.5, 1.5], 4),
        ({"patience": 1, "min_delta": 0.5}, [3.0, 2.8, 2.0], 2),
        ({"patience": 0}, [3.0, 2.0, 2.5], 3),
        ({"stopping_threshold": 1.0}, [3.0, 2.0, 0.5, 0.4], 3),
        ({"divergence_threshold": 9.0}, [3.0, 10.0, 2.0], 2),
        ({"divergence_threshold": 0.1, "mode": "max"}, [0.5, 0.05, 0.6], 2),
        ({}, [3.0, float("nan"), 1.0], 2),
        ({"check_finite": False, "patience": 9}, [3.0, float("nan"), 1.0], 3),
    ],
)
def test_it_stops_when_its_rules_say_so(arguments, values, epochs):
    assert checks(EarlyStopping("val_loss", **arguments), values) == epochs


def test_its_patience_may_be_a_duration_that_a_resume_goes_on_with():
    values = [3.0, 2.0, 2.5, 2.5, 2.5, 2.5]  # after 5, 10, 15... tokens; 2.0 is the best, at 10

    def stops_after(callback, epochs):
        for epoch in epochs:
            trainer = FakeTrainer(global_tokens=5 * (epoch + 1), current_epoch=epoch)
            trainer.callback_metrics = {"val_loss": torch.tensor(values[epoch])}
            callback.on_validation_end(trainer, trainer.lightning_module)
            callback.on_train_epoch_end(trainer, trainer.lightning_module)
            if trainer.should_stop:
                return epoch + 1
        return None

    with pytest.raises(ConfigError, match="Write patience=3, without quotes"):
        EarlyStopping("val_loss", patience="3")
    first, second = EarlyStopping("val_loss", patience="12 tokens"), EarlyStopping("val_loss", patience="12 tokens")
    assert stops_after(first, range(3)) is None
    second.load_state_dict(first.state_dict())
    assert stops_after(second, range(3, 6)) == 5  # 25 tokens, 15 since the best
    assert "did not get better in 12 tokens" in second.explain()


@pytest.mark.parametrize(("mode", "better", "not_enough"), [("min", 1.0, 1.75), ("max", 3.0, 2.25)])
def test_a_subclass_compares_by_its_operator_and_change(mode, better, not_enough):
    callback = EarlyStopping("val_loss", min_delta=0.5, mode=mode)
    best = torch.tensor(2.0)
    assert callback.monitor_op(torch.tensor(better) - callback.min_delta, best)
    assert not callback.monitor_op(torch.tensor(not_enough) - callback.min_delta, best)


def test_it_says_why():
    callback, trainer = EarlyStopping("val_loss", patience=1), FakeTrainer()
    checks(callback, [0.5, 0.75], trainer)
    (said,) = trainer.printed
    assert said.startswith(
        "Training ends after epoch 1: val_loss did not get better by more than 0 in the last 1 checks"
    )
    assert said.endswith("its best was 0.5.")
    assert callback.stopping_reason is EarlyStoppingReason.PATIENCE_EXHAUSTED
    assert callback.stopped_epoch == 1


@pytest.mark.parametrize("least", [{"min_epochs": 4}, {"min_steps": 5}, {"min_epochs": 4, "min_steps": 1}])
@pytest.mark.parametrize("make", [lambda: EarlyStopping("val_loss", patience=1), lambda: Timer(timedelta(0))])
def test_a_run_that_goes_on_to_its_least_length_is_told_so_once(least, make):
    callback, trainer = make(), FakeTrainer(**least)
    trainer.callback_metrics = {"val_loss": torch.tensor(1.0)}
    callback.on_train_start(trainer, trainer.lightning_module)
    for trainer.current_epoch in range(4):  # nothing gets better, and no time is left
        callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)
        callback.on_train_epoch_end(trainer, trainer.lightning_module)
    (said,) = trainer.printed
    assert said.startswith("Training ends when min_epochs and min_steps are reached: ")


def test_a_resumed_run_stops_where_the_uninterrupted_one_does():
    values = [3.0, 2.0, 2.5, 2.5, 2.5, 2.5]
    whole = checks(EarlyStopping("val_loss", patience=3), values)
    first, second = EarlyStopping("val_loss", patience=3), EarlyStopping("val_loss", patience=3)
    checks(first, values[:3])
    second.load_state_dict(first.state_dict())
    assert 3 + checks(second, values[3:]) == whole


def test_the_moment_is_validations_end_where_it_does_not_run_once_an_epoch():
    callback, trainer = EarlyStopping("val_loss", patience=1), FakeTrainer(val_check_interval=0.5)
    trainer.callback_metrics = {"val_loss": torch.tensor(1.0)}
    callback.on_train_epoch_end(trainer, trainer.lightning_module)
    assert callback.wait_count == 0
    assert torch.isinf(callback.best_score)
    callback.on_validation_end(trainer, trainer.lightning_module)
    assert float(callback.best_score) == 1.0


def test_the_sanity_check_does_not_count():
    callback, trainer = EarlyStopping("val_loss", check_on_train_epoch_end=False), FakeTrainer(sanity_checking=True)
    callback.on_validation_end(trainer, trainer.lightning_module)
    assert torch.isinf(callback.best_score)


def test_an_unknown_monitor_is_an_error_with_what_was_logged():
    with pytest.raises(LogError, match=r"'val_los'.*Logged so far: 'val_loss'. Did you mean 'val_loss'\?"):
        checks(EarlyStopping("val_los"), [1.0])


def test_a_run_that_a_limit_ends_before_its_first_validation_is_no_error():
    callback, trainer = EarlyStopping("val_loss"), FakeTrainer(num_val_batches=[1], stop_reason="max_steps=2 reached")
    callback.on_train_epoch_end(trainer, trainer.lightning_module)
    assert torch.isinf(callback.best_score)


def test_before_the_first_validation_it_waits_with_a_warning_and_after_it_a_lacking_monitor_is_an_error():
    callback, trainer = EarlyStopping("val_loss", check_on_train_epoch_end=True), FakeTrainer(num_val_batches=[1])
    with pytest.warns(LtWarning, match="before this fit's first validation"):
        callback.on_train_epoch_end(trainer, trainer.lightning_module)
    callback.on_validation_end(trainer, trainer.lightning_module)
    with pytest.raises(LogError, match="val_loss"):
        callback.on_train_epoch_end(trainer, trainer.lightning_module)


def test_an_unknown_monitor_is_a_warning_where_not_strict():
    with pytest.warns(LtWarning, match="val_los"):
        assert checks(EarlyStopping("val_los", strict=False), [1.0]) == 1


def test_all_ranks_stop_when_one_would_and_say_which():
    class TwoRanks(Strategy):
        def all_reduce(self, tensor, op="mean"):
            assert op == "max"
            return torch.ones_like(tensor)

        def gather_objects(self, value):
            return [value, (EarlyStoppingReason.NON_FINITE_METRIC.value, "val_loss = nan is not finite.")]

    callback, trainer = EarlyStopping("val_loss"), FakeTrainer(strategy=TwoRanks(), world_size=2)
    assert checks(callback, [1.0, 0.5], trainer) == 1
    assert callback.stopping_reason_message == "rank 1: val_loss = nan is not finite."


@pytest.mark.parametrize(
    "arguments",
    [{"mode": "mim"}, {"patience": -1}, {"patience": 1.5}, {"patience": "2 sheep"}, {"min_delta": -1.0}],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ConfigError, match=next(iter(arguments))):
        EarlyStopping("val_loss", **arguments)


def test_the_comparison_can_be_read():
    assert EarlyStopping("loss").monitor_op is torch.lt
    assert EarlyStopping("acc", mode="max").monitor_op is torch.gt


def test_a_subclass_may_skip_checks_by_overriding_the_check():
    class Later(EarlyStopping):
        def _run_early_stopping_check(self, trainer):
            if trainer.current_epoch >= 2:
                super()._run_early_stopping_check(trainer)

    callback = Later("val_loss", patience=1)
    assert checks(callback, [1.0, 2.0, 3.0, 4.0]) == 4
    assert callback.wait_count == 1


def test_a_subclass_may_skip_checks():
    class Later(EarlyStopping):
        def _should_skip_check(self, trainer):
            return trainer.current_epoch < 2 or super()._should_skip_check(trainer)

    callback = Later("val_loss", patience=1)
    assert checks(callback, [1.0, 2.0, 3.0, 4.0]) == 4
    assert callback.wait_count == 1


def test_a_subclass_may_wait_or_take_note_by_overriding_the_criteria():
    class Loud(EarlyStopping):
        noted, looked = None, 0

        def _evaluate_stopping_criteria(self, current):
            self.looked += 1
            if self.looked == 1:
                return False, "waits"
            stops, self.noted = super()._evaluate_stopping_criteria(current)
            return stops, self.noted

    callback = Loud("val_loss", patience=1)
    assert checks(callback, [9.0, 1.0, 2.0, 3.0]) == 3
    assert callback.noted == callback.stopping_reason_message
    assert callback.stopping_reason is EarlyStoppingReason.PATIENCE_EXHAUSTED


def test_a_subclass_says_which_values_are_checked():
    class Patient(EarlyStopping):
        asked = 0

        def _validate_condition_metric(self, logs):
            self.asked += 1
            return super()._validate_condition_metric(logs) and float(logs[self.monitor]) < 100

    callback = Patient("val_loss", patience=1)
    assert checks(callback, [2.0, 200.0, 300.0, 1.0, 3.0]) == 5
    assert callback.asked == 5
    with pytest.raises(LogError, match="LT531"):
        checks(Patient("val_loss"), [1.0], metric="loss")


def test_a_subclass_lets_a_metric_be_missing():
    class Calm(EarlyStopping):
        def _validate_condition_metric(self, logs):
            return self.monitor in logs

    assert checks(Calm("val_loss"), [1.0, 2.0], metric="loss") == 2
