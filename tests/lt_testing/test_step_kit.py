"""The kit for steps: lt's own way to train passes it, and what breaks a promise fails it."""

import time
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from lt_core.step import RunningStep, Step
from lt_testing import StepKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


@dataclass(frozen=True)
class Halves(Step):
    wraps: ClassVar[bool] = True
    most_steps: ClassVar[int | None] = 2

    def begin(self, handle):
        return RunningHalves(handle)


class RunningHalves(RunningStep):
    def run_batch(self, batch, index):
        for part in zip(*(column.chunk(2) for column in batch), strict=True):
            output = self.handle.run_batch(list(part), index)
            if self.handle.steps_left <= 0:
                break
        return output


class TestHalves(StepKit):
    @pytest.fixture
    def step(self):
        return Halves()


class TestPlain(StepKit):
    @pytest.fixture
    def step(self):
        return Step()


class Open(Step):
    """Not a frozen dataclass of its own."""


@dataclass(frozen=True)
class Understating(Halves):
    most_steps: ClassVar[int | None] = 1


@dataclass(frozen=True)
class Overrunning(Halves):
    def begin(self, handle):
        return WithoutEnd(handle)


class WithoutEnd(RunningStep):
    def run_batch(self, batch, index):
        return [self.handle.run_batch([part[:4] for part in batch], index) for _ in range(2)][-1]


@dataclass(frozen=True)
class Forgetful(Step):
    """Has state that goes into the numbers, and no key for it."""

    wraps: ClassVar[bool] = True

    def begin(self, handle):
        return Counting(handle)


class Counting(RunningStep):
    done = 0

    def run_batch(self, batch, index):
        self.done += 1
        return self.handle.run_batch([batch[0] * self.done, batch[1]], index)


@dataclass(frozen=True)
class Late(Step):
    """Does two batches together, and has no settle for the one that waits."""

    wraps: ClassVar[bool] = True
    groups_batches: ClassVar[bool] = True
    most_steps: ClassVar[int | None] = 2

    def begin(self, handle):
        return Waiting(handle)


class Waiting(RunningStep):
    waits = None

    def run_batch(self, batch, index):
        if self.waits is None:
            self.waits = batch
            return None
        self.handle.run_batch(self.waits, index)
        self.waits = None
        return self.handle.run_batch(batch, index)


@dataclass(frozen=True)
class Drawing(Step):
    """Has random numbers of its own, from the clock."""

    wraps: ClassVar[bool] = True

    def begin(self, handle):
        return Noisy(handle)


class Noisy(RunningStep):
    def run_batch(self, batch, index):
        noise = torch.randn(batch[0].shape, generator=torch.Generator().manual_seed(time.time_ns() % 2**40))
        return self.handle.run_batch([batch[0] + noise, batch[1]], index)


@dataclass(frozen=True)
class TwoLines(Step):
    def explain(self):
        return "one\ntwo"


BREAKS = {
    "test_it_is_frozen_and_can_be_pickled": Open(),
    "test_it_trains_and_takes_no_more_steps_than_it_declares": Understating(),
    "test_it_takes_max_steps_and_no_more": Overrunning(),
    "test_training_with_it_is_the_same_each_time": Drawing(),
    "test_what_it_declares_is_of_the_right_types": TwoLines(),
    "test_its_state_is_kept_under_its_key_and_a_run_that_resumes_ends_as_the_whole": Forgetful(),
}


@pytest.mark.parametrize("test", BREAKS, ids=lambda name: name[5:40])
def test_a_step_that_breaks_a_promise_fails(test, tmp_path):
    folder = () if "frozen" in test or "types" in test else (tmp_path,)
    with pytest.raises(AssertionError):
        getattr(StepKit(), test)(BREAKS[test], *folder)


def test_a_batch_that_a_save_has_forgotten_fails(tmp_path):
    with pytest.raises(AssertionError):
        StepKit().test_its_state_is_kept_under_its_key_and_a_run_that_resumes_ends_as_the_whole(Late(), tmp_path)
