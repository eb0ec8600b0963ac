"""How long something lasts, as users write it."""

from datetime import timedelta

import pytest

from lt_core.duration import UNITS as ALL
from lt_core.duration import Duration, Every
from lt_core.errors import ConfigError, ConfigTypeError
from lt_testing import FakeTrainer


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("00:00:00:01", 1.0),
        ("01:02:03:04", 93784.0),
        ("30 min", 1800.0),
        ("1h", 3600.0),
        ("1h 30m", 5400.0),
        ("1.5 Hours", 5400.0),
        ("2 days", 172800.0),
        ("250 ms", 0.25),
        (timedelta(minutes=1.5), 90.0),
        ({"hours": 1, "minutes": 0.5}, 3630.0),
    ],
)
def test_a_time_of_any_form_is_seconds(written, seconds):
    assert Duration.of(written) == Duration(seconds, "seconds")


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        ("500 steps", 500, "steps"),
        ("1 epoch", 1, "epochs"),
        ("0.5 epochs", 0.5, "epochs"),
        ("1e6 samples", 1_000_000, "samples"),
        ("10_000 samples", 10_000, "samples"),
        ("0.1 run", 0.1, "run"),
        ("2.5e9 tokens", 2.5e9, "tokens"),
        ("3 batches", 3, "batches"),
    ],
)
def test_an_amount_of_training_is_a_number_and_a_unit(written, amount, unit):
    found = Duration.of(written, ALL)
    assert found == Duration(amount, unit)
    assert Duration.of(str(found), ALL) == Duration.of(found, ALL) == found


@pytest.mark.parametrize(
    ("written", "units", "message"),
    [
        ("30:00", ("seconds",), "Half an hour is '30 min' or '00:00:30:00'"),
        ("5 mintues", ("seconds",), "'mintues' is no unit of it. Did you mean 'minutes'"),
        ("5 setps", ALL, "Did you mean 'steps'"),
        ("500 steps", ("seconds",), "expected a time"),
        ("30 min", ("steps",), "expected '500 steps'; 'seconds' do not count here."),
        ("10 batches", ("steps", "samples"), "'batches' do not count here. Write '10 steps'."),
        ("1e400 steps", ALL, "that is finite"),
        ("1.5 steps", ALL, "Write '2 steps'"),
        ("1.2.3 steps", ALL, "'1.2.3' is no number"),
        ("2 run", ALL, "share of the run"),
        ("1 epoch 3 steps", ALL, "only times add up"),
        ("", ALL, "expected '500 steps'"),
        ({"hour": 1}, ALL, "Did you mean 'hours'"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_the_way_out(written, units, message):
    with pytest.raises(ConfigError, match="LT355") as error:
        Duration.of(written, units, "when(every={})")
    assert message in str(error.value)
    assert str(error.value).startswith(f"when(every={written!r}): ")


def test_a_number_alone_is_refused():
    with pytest.raises(ConfigTypeError, match="For seconds write"):
        Duration.of(5)


def test_multiples_are_due_once_each_whatever_a_call_jumps_over():
    trainer = FakeTrainer()
    every = Every(Duration(10, "tokens"), trainer)
    found = []
    for tokens in (4, 9, 10, 12, 35, 39, 40):
        trainer.global_tokens = tokens
        if every.is_due():
            found.append((tokens, every.reached))
    assert found == [(10, 1), (35, 3), (40, 4)]


def test_a_batch_that_took_several_times_is_due_once():
    trainer, found = FakeTrainer(), []
    trainer.elapsed = lambda unit, at_start=False: {"seconds": trainer.seconds, "batches": trainer.seconds}.get(unit, 0)
    trainer.seconds = 0.0
    every = Every(Duration(10, "seconds"), trainer)
    for seconds in (9.0, 45.0, 46.0, 49.0, 50.0):
        trainer.seconds = seconds
        if every.is_due():
            found.append((seconds, every.reached))
    assert found == [(45.0, 4), (50.0, 5)]


def test_thirty_of_a_hundred_are_three_tenths():
    trainer = FakeTrainer()
    every = Every(Duration(0.1 * 3, "run"), trainer)
    trainer.elapsed = lambda unit, at_start=False: 0.0 if at_start else 30 / 100
    assert every.is_due()


def test_another_fit_of_the_same_trainer_counts_from_its_own_start():
    trainer = FakeTrainer(global_step=40)
    every = Every(Duration(10, "steps"), trainer)
    assert every.is_due()
    trainer.global_step = 9
    assert not every.is_due()
    trainer.global_step = 10
    assert every.is_due()
