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


@dataclass(frozen=True)
class TwoForwards(Step):
    """Trains on the mean of two forwards, from the handle's blocks; what is wrong derives from it."""

    repeats_forward: ClassVar[bool] = True

    def begin(self, handle):
        return RunningTwo(handle, self)

    def backward(self, handle, loss):
        handle.backward(loss)

    def close(self, handle, index):
        handle.close()

    def step_by_itself(self, handle):
        if handle.take_step(handle.optimizers[0]):
            handle.stepped()
        handle.close(steps=False)


class RunningTwo(RunningStep):
    def __init__(self, handle, step):
        super().__init__(handle)
        self.wrong = step

    def run_batch(self, batch, index):
        self.handle.open(index)
        losses = [self.handle.call(batch, index)]
        with self.handle.muted():
            losses.append(self.handle.call(batch, index))
        self.wrong.backward(self.handle, sum(losses) / 2)
        self.wrong.close(self.handle, index)
        return losses[-1]


class TestTwoForwards(StepKit):
    @pytest.fixture
    def step(self):
        return TwoForwards()


@dataclass(frozen=True)
class SumsTheWindow(TwoForwards):
    """Calls backward by itself, and not for a share of the window."""

    def backward(self, handle, loss):
        handle.zero()
        loss.backward()


@dataclass(frozen=True)
class ClearsEachBatch(TwoForwards):
    def backward(self, handle, loss):
        handle.module.zero_grad()
        handle.backward(loss)


@dataclass(frozen=True)
class StepsEachBatch(TwoForwards):
    """Knows no window."""

    def close(self, handle, index):
        handle.prepare(handle.optimizers[0])
        self.step_by_itself(handle)


@dataclass(frozen=True)
class LosesTheShortWindow(TwoForwards):
    def close(self, handle, index):
        size = handle.settings.accumulate_grad_batches
        if (index + 1) % size == 0:
            handle.prepare(handle.optimizers[0])
            self.step_by_itself(handle)
        else:
            handle.close(steps=False)


@dataclass(frozen=True)
class WeighsTheShortWindowAsAWholeOne(TwoForwards):
    def backward(self, handle, loss):
        handle.zero()
        handle.precision.scale_loss(loss / handle.settings.accumulate_grad_batches).backward()


@dataclass(frozen=True)
class ForgetsTheScale(TwoForwards):
    """Takes the optimizer's step as it is."""

    def close(self, handle, index):
        handle.optimizers[0].step()
        handle.stepped()
        handle.close(steps=False)


@dataclass(frozen=True)
class UnscalesTwice(TwoForwards):
    """Looks at the gradients before they are prepared."""

    def close(self, handle, index):
        handle.precision.unscale(handle.optimizers[0])
        handle.close()


@dataclass(frozen=True)
class Unclipped(TwoForwards):
    def close(self, handle, index):
        handle.precision.unscale(handle.optimizers[0])
        self.step_by_itself(handle)


@dataclass(frozen=True)
class StepsTwice(TwoForwards):
    def close(self, handle, index):
        handle.close()
        handle.optimizers[0].step()


@dataclass(frozen=True)
class CountsNoStep(TwoForwards):
    def close(self, handle, index):
        handle.prepare(handle.optimizers[0])
        handle.take_step(handle.optimizers[0])
        handle.close(steps=False)


@dataclass(frozen=True)
class LogsEachForward(TwoForwards):
    def begin(self, handle):
        return Loud(handle, self)


class Loud(RunningTwo):
    def run_batch(self, batch, index):
        rows = [{"train_loss": self.handle.call(batch, index).item()}]
        for logger in self.handle.module.trainer.loggers:
            logger.log_metrics(rows[0], self.handle.module.global_step)
        return super().run_batch(batch, index)


WINDOW = "test_a_window_of_a_batch_and_the_same_again_trains_as_that_batch"
ASKED = "test_a_scaled_loss_and_a_clipped_gradient_are_taken_as_asked"
COUNTED = "test_it_trains_and_takes_no_more_steps_than_it_declares"
MISTAKES = [
    (SumsTheWindow, WINDOW),
    (ClearsEachBatch, WINDOW),
    (StepsEachBatch, WINDOW),
    (LosesTheShortWindow, WINDOW),
    (WeighsTheShortWindowAsAWholeOne, WINDOW),
    (SumsTheWindow, ASKED),
    (ForgetsTheScale, ASKED),
    (UnscalesTwice, ASKED),
    (Unclipped, ASKED),
    (StepsTwice, COUNTED),
    (CountsNoStep, COUNTED),
    (LogsEachForward, "test_logged_values_of_a_step_appear_once"),
]


@pytest.mark.parametrize(("kind", "test"), MISTAKES)
def test_a_mistake_in_a_step_is_caught(kind, test, tmp_path):
    with pytest.raises(AssertionError):
        getattr(StepKit(), test)(kind(), tmp_path)


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
