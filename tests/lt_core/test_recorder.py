"""What ``self.log`` writes to is the loop's choice: any object with the members of ``Recorder``."""

import pytest
import torch

from lt_core import LightningModule, LtWarning, Recorder


class Net(LightningModule):
    def training_step(self, batch):
        self.log("loss", batch.sum(), prog_bar=True, batch_size=4)
        self.log("quiet", 1.0, rank_zero_only=True)


class Last(Recorder):
    """Keeps the newest value of each name."""

    def __init__(self):
        self.slots, self.calls = {}, []

    def resolve(self, name, given, batch_size=None):
        self.slots[name] = kept = Kept(given)
        self.calls.append(name)
        return kept


class Kept:
    def __init__(self, given):
        self.given = given

    def add(self, value, batch_size):
        self.value, self.weight = value, batch_size


def logged_by(recorder, steps=1):
    module = Net()
    module._lt_attach_run(None, recorder)
    for _ in range(steps):
        module.training_step(torch.ones(3))
    return recorder


def test_a_recorder_of_ones_own_takes_what_a_module_logs():
    slots = logged_by(Last()).slots
    assert (slots["loss"].value, slots["loss"].weight, slots["loss"].given.prog_bar) == (3, 4, True)


def test_a_name_is_resolved_at_its_first_call():
    assert logged_by(Last(), steps=3).calls == ["loss", "quiet"]


def test_what_rank_zero_alone_logs_does_not_reach_the_recorder_of_another_rank():
    recorder = Last()
    recorder.rank = 1
    assert list(logged_by(recorder).slots) == ["loss"]


def test_with_a_recorder_that_does_not_collect_a_module_logs_nothing_and_runs():
    logged_by(Recorder())


def test_without_a_recorder_a_module_warns_that_nothing_is_logged_and_runs():
    with pytest.warns(LtWarning, match=r"self.log\('.*nothing is logged.*LT528"):
        logged_by(None)
