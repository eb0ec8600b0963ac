"""The kits for small parts: core's own pass them, and wrong ones do not."""

import pytest
import torch

from lt_core import Accelerator, Callback, Precision
from lt_core.logger import Logger
from lt_testing import AcceleratorKit, CallbackKit, CheckpointKit, LoggerKit, PrecisionKit


class TestCPU(AcceleratorKit):
    def make_accelerator(self):
        return Accelerator()


class Counting(Callback):
    """Counts batches, and keeps them in a checkpoint."""

    def __init__(self):
        self.batches = 0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.batches += 1

    def state_dict(self):
        return {"batches": self.batches}

    def load_state_dict(self, state_dict):
        self.batches = state_dict["batches"]


class TestCounting(CallbackKit):
    def make_callback(self, folder):
        return Counting()


class Drawing(Counting):
    """Draws a random number that training would have drawn."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        torch.rand(1)


class Forgetting(Counting):
    def load_state_dict(self, state_dict):
        pass


class Old(Callback):
    def on_train_batch_end(self, trainer, pl_module):
        pass


class Keeping(Counting):
    def state_dict(self):
        return {"self": self}


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Drawing, "test_training_is_the_same_with_it"),
        (Forgetting, "test_a_resumed_run_ends_in_the_state_of_the_uninterrupted_one"),
        (Old, "test_its_hooks_take_what_the_interface_gives_them"),
        (Keeping, "test_its_first_state_is_plain_data_and_goes_back"),
    ],
)
def test_a_wrong_callback_fails_where_it_is_wrong(kind, test, tmp_path):
    class Wrong(CallbackKit):
        __test__ = False

        def make_callback(self, folder):
            return kind()

    with pytest.raises((AssertionError, TypeError)):
        getattr(Wrong(), test)(tmp_path)


class Greedy(Accelerator):
    """Takes whatever it is asked for."""

    name, device_type = "greedy", "cpu"

    def count(self):
        return 2

    def parse_devices(self, devices):
        return list(range(int(devices))) if isinstance(devices, (int, str)) else list(devices)


@pytest.mark.parametrize(
    "test",
    [
        "test_counts_below_one_are_errors",
        "test_what_is_no_count_is_an_error",
        "test_more_devices_than_there_are_is_an_error_that_counts_them",
        "test_a_repeated_index_is_an_error",
    ],
)
def test_a_wrong_accelerator_fails_where_it_is_wrong(test):
    class Wrong(AcceleratorKit):
        __test__ = False

        def make_accelerator(self):
            return Greedy()

    with pytest.raises((AssertionError, ValueError, TypeError)):
        getattr(Wrong(), test)()


class TestThirtyTwoBits(PrecisionKit):
    def make_precision(self):
        return Precision()


class Scaled(Precision):
    """Scales the loss, and forgets to scale back; its scale grows and is not saved."""

    name, scales, scale = "scaled", True, 1.0

    def scale_loss(self, loss):
        self.scale += 1.0
        return loss * self.scale


class Deaf(Precision):
    def step(self, optimizer, take_step):
        take_step()
        return True


class Flat(Precision):
    def convert_input(self, batch):
        return {key: [0] for key in batch}


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Scaled, "test_gradients_are_of_their_true_size_after_unscale"),
        (Flat, "test_integers_and_text_of_a_batch_stay_what_they_are"),
        (Deaf, "test_a_step_is_taken_and_its_answer_passed_on"),
    ],
)
def test_a_wrong_precision_fails_where_it_is_wrong(kind, test):
    class Wrong(PrecisionKit):
        __test__ = False

        def make_precision(self):
            return kind()

    with pytest.raises((AssertionError, AttributeError)):
        getattr(Wrong(), test)()


def test_a_scale_that_is_not_saved_shows_in_a_resume(tmp_path):
    class Wrong(PrecisionKit):
        __test__ = False

        def make_precision(self):
            return Scaled()

    with pytest.raises((AssertionError, pytest.skip.Exception)):
        Wrong().test_a_run_that_resumes_ends_as_the_uninterrupted_one(tmp_path)


@pytest.mark.parametrize("kit", [AcceleratorKit, CallbackKit, CheckpointKit, PrecisionKit])
def test_a_test_of_a_kit_cannot_be_replaced_without_a_reason(kit):
    name = next(name for name in vars(kit) if name.startswith("test_"))

    def replacement(self):
        pass

    with pytest.raises(TypeError, match=r"mark it xfail\(reason=...\)"):
        type("TestMine", (kit,), {name: replacement})
    type("TestDeclared", (kit,), {"__test__": False, name: pytest.mark.xfail(reason="known")(replacement)})


class Astray(Logger):
    """Says where a run's files are, and not where those of all runs are."""

    log_dir = None

    def __init__(self, folder):
        self.log_dir = str(folder / "run_0")


def test_a_logger_whose_checkpoints_auto_would_not_find_is_found(tmp_path):
    kit = type("Kit", (LoggerKit,), {"make_logger": lambda self, save_dir: Astray(save_dir)})()
    with pytest.raises(AssertionError, match=r"expected log_dir below root_dir.*root_dir=None"):
        kit.test_the_folder_of_a_run_lies_in_that_of_the_experiment(tmp_path)
