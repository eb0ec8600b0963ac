"""The kits for accelerators and callbacks: core's own parts pass them, and wrong ones do not."""

import pytest
import torch

from lt_core import Accelerator, Callback
from lt_core.testing import AcceleratorKit, CallbackKit


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


@pytest.mark.parametrize("kit", [AcceleratorKit, CallbackKit])
def test_a_test_of_a_kit_cannot_be_replaced_without_a_reason(kit):
    name = next(name for name in vars(kit) if name.startswith("test_"))

    def replacement(self):
        pass

    with pytest.raises(TypeError, match=r"mark it xfail\(reason=...\)"):
        type("TestMine", (kit,), {name: replacement})
    type("TestDeclared", (kit,), {"__test__": False, name: pytest.mark.xfail(reason="known")(replacement)})
