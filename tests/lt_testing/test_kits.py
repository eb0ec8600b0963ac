"""The kits for small parts: core's own pass them, and wrong ones do not."""

import os
import random
import threading
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest
import torch

from lt_core import Accelerator, Callback, Precision
from lt_core.batch import map_batch
from lt_testing import AcceleratorKit, CallbackKit, CheckpointKit, PrecisionKit


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


class Changing(Counting):
    """Clips weights, as it calls it."""

    def on_train_epoch_end(self, trainer, pl_module):
        with torch.no_grad():
            for param in pl_module.parameters():
                param.clamp_(-0.1, 0.1)


class Evaluating(Counting):
    """Leaves the module in the mode in which it looked at it."""

    def on_train_epoch_start(self, trainer, pl_module):
        pl_module.eval()


class Hooking(Counting):
    """Leaves its hook in the user's module."""

    def on_fit_start(self, trainer, pl_module):
        pl_module.layers[0].register_forward_hook(lambda *_: None)


class Beginning(Counting):
    """Begins to count at each start, that of a resumed run too."""

    def on_train_start(self, trainer, pl_module):
        self.batches = 0


class HalfAnew(Counting):
    """Is not quite as new in a second fit."""

    def begin_anew(self, trainer):
        self.batches = 1


class Monitoring(Counting):
    def on_train_end(self, trainer, pl_module):
        self.best = float(trainer.callback_metrics["val_loss"])


class Logging(Counting):
    def on_train_start(self, trainer, pl_module):
        trainer.logger.log_hyperparams({})


class Holding(Counting):
    def __init__(self):
        super().__init__()
        self.clock = lambda: 0


class OwnKey(Counting):
    @property
    def state_key(self):
        return f"own {id(self)}"


class Threading(Counting):
    """Stops its thread where a fit ends well."""

    def on_fit_start(self, trainer, pl_module):
        self.end = threading.Event()
        threading.Thread(target=self.end.wait, args=(20,)).start()

    def on_fit_end(self, trainer, pl_module):
        self.end.set()


class Littering(Counting):
    def on_fit_end(self, trainer, pl_module):
        Path("counted.txt").write_text(str(self.batches))


class DrawingInPython(Counting):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        random.random()


class Augmenting(Counting):
    """Writes into the loader's own tensors."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        batch[0].mul_(1.5)


class Freezing(Counting):
    def on_fit_end(self, trainer, pl_module):
        pl_module.requires_grad_(False)


class Telling(Counting):
    def on_fit_start(self, trainer, pl_module):
        os.environ["COUNTED"] = "1"


CALLBACKS = [
    (DrawingInPython, "test_training_is_the_same_with_it"),
    (Augmenting, "test_training_is_the_same_with_it"),
    (Freezing, "test_training_is_the_same_with_it"),
    (Telling, "test_training_is_the_same_with_it"),
    (Drawing, "test_training_is_the_same_with_it"),
    (Changing, "test_training_is_the_same_with_it"),
    (Evaluating, "test_training_is_the_same_with_it"),
    (Hooking, "test_training_is_the_same_with_it"),
    (Forgetting, "test_a_resumed_run_ends_in_the_state_of_the_uninterrupted_one"),
    (Beginning, "test_a_resumed_run_ends_in_the_state_of_the_uninterrupted_one"),
    (HalfAnew, "test_a_second_fit_leaves_it_in_the_state_of_a_new_one"),
    (Monitoring, "test_a_fit_without_validation_works_with_it_unless_it_monitors"),
    (Logging, "test_every_kind_of_run_works_with_it"),
    (Littering, "test_every_kind_of_run_works_with_it"),
    (Threading, "test_the_user_s_error_comes_out_and_no_thread_stays"),
    (Holding, "test_it_can_be_copied_and_pickled"),
    (OwnKey, "test_its_key_in_a_checkpoint_is_that_of_its_twin"),
    (Old, "test_its_hooks_take_what_the_interface_gives_them"),
    (Keeping, "test_its_first_state_is_plain_data_and_goes_back"),
]


@pytest.mark.parametrize(("kind", "test"), CALLBACKS)
def test_a_wrong_callback_fails_where_it_is_wrong(kind, test, caught_by):
    class Wrong(CallbackKit):
        __test__ = False

        def make_callback(self, folder):
            return kind()

    with mock.patch.dict(os.environ):
        assert caught_by(Wrong, test)


class Greedy(Accelerator):
    """Takes whatever it is asked for."""

    name, device_type = "greedy", "cpu"

    def count(self):
        return 2

    def parse_devices(self, devices):
        return list(range(int(devices))) if isinstance(devices, (int, str)) else list(devices)


class Absent(Accelerator):
    def count(self):
        return 0

    def available(self):
        return False

    def unavailable_reason(self):
        return ""


class AvailableWithoutDevices(Accelerator):
    def count(self):
        return 0


class Recounting(Accelerator):
    """Counts what is left."""

    left = 3

    def count(self):
        self.left -= 1
        return self.left


class OtherDevice(Accelerator):
    def torch_device(self, index):
        return torch.device("meta")


class ClosesOnce(Accelerator):
    def open(self, device):
        self.file = object()

    def close(self):
        del self.file


class TensorStats(Accelerator):
    def stats(self, device):
        return {"memory": torch.tensor(1.0)}


class HoldsADriver(Accelerator):
    def __init__(self):
        self.driver = threading.Lock()


class TakesTheFirst(Accelerator):
    def parse_devices(self, devices):
        super().parse_devices(devices)
        return [0, 0]


class AllOnTheFirst(Accelerator):
    """Opens another device than it was given."""

    device_type = "meta"

    def count(self):
        return 2

    def torch_device(self, index):
        return torch.device("meta", 0)


class Sorts(Accelerator):
    def count(self):
        return 3

    def parse_devices(self, devices):
        return sorted(super().parse_devices(devices))


class ForgetsItsGenerator(Accelerator):
    def generator_state(self):
        return torch.get_rng_state()

    def restore_generator(self, state):
        pass


class SeedsForItsGenerator(ForgetsItsGenerator):
    """Keeps the seed, and not where its numbers are."""

    def generator_state(self):
        return torch.initial_seed()

    def restore_generator(self, state):
        torch.manual_seed(state)


class AutoTakesOneMore(Accelerator):
    def parse_devices(self, devices):
        return [0, 1] if devices == "auto" else super().parse_devices(devices)


ACCELERATORS = [
    (AllOnTheFirst, "test_two_devices_of_one_index_are_the_same"),
    (Sorts, "test_auto_takes_its_own_number_and_minus_one_takes_all"),
    (ForgetsItsGenerator, "test_an_opened_device_computes"),
    (SeedsForItsGenerator, "test_an_opened_device_computes"),
    (AutoTakesOneMore, "test_auto_takes_its_own_number_and_minus_one_takes_all"),
    (Greedy, "test_counts_below_one_are_errors"),
    (Greedy, "test_what_is_no_count_is_an_error"),
    (Greedy, "test_more_devices_than_there_are_is_an_error_that_counts_them"),
    (Greedy, "test_a_repeated_index_is_an_error"),
    (Absent, "test_it_says_why_it_is_not_available"),
    (AvailableWithoutDevices, "test_it_is_available_where_devices_are_counted"),
    (Recounting, "test_it_is_available_where_devices_are_counted"),
    (OtherDevice, "test_a_device_has_torch_s_type"),
    (ClosesOnce, "test_an_opened_device_computes"),
    (TensorStats, "test_statistics_are_finite_numbers_by_name"),
    (HoldsADriver, "test_it_can_be_copied_and_pickled"),
    (TakesTheFirst, "test_counts_indices_and_strings_mean_the_same"),
]


@pytest.mark.parametrize(("kind", "test"), ACCELERATORS)
def test_a_wrong_accelerator_fails_where_it_is_wrong(kind, test, caught_by):
    class Wrong(AcceleratorKit):
        __test__ = False

        def make_accelerator(self):
            return kind()

    assert caught_by(Wrong, test)


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


class Targets(Precision):
    """Converts targets, too."""

    def convert_input(self, batch):
        return map_batch(lambda value: value.float() if isinstance(value, torch.Tensor) else value, batch)


class Remembers(Precision):
    """Has a state that is not put back."""

    steps = 0

    def state_dict(self):
        return {"steps": self.steps, "id": id(self)}


class Underflows(Precision):
    """Has no number for what is small."""

    def convert_input(self, batch):
        return map_batch(lambda v: v * (v.abs() > 9) if torch.is_tensor(v) and v.is_floating_point() else v, batch)


class StepsTwice(Precision):
    def step(self, optimizer, take_step):
        take_step()
        return take_step()


class StaysInAutocast(Precision):
    """Enters the context of its steps once for all."""

    def wrap_step(self, step):
        torch.autocast("cpu", torch.bfloat16).__enter__()
        return step


class LeavesItsType(Precision):
    def init_context(self):
        torch.set_default_dtype(torch.float64)
        return nullcontext()


class OtherNewParameters(Precision):
    """Makes parameters in another type than it converts to."""

    def convert_module(self, module):
        return module.double()


class GradientsStayOff(Precision):
    def wrap_step(self, step):
        def run(*args):
            result = step(*args)
            torch.set_grad_enabled(False)
            return result

        return run


PRECISIONS = [
    (StepsTwice, "test_a_step_is_taken_and_its_answer_passed_on"),
    (StaysInAutocast, "test_its_contexts_end"),
    (LeavesItsType, "test_its_contexts_end"),
    (OtherNewParameters, "test_its_contexts_end"),
    (GradientsStayOff, "test_its_contexts_end"),
    (Scaled, "test_gradients_are_of_their_true_size_after_unscale"),
    (Scaled, "test_a_run_that_resumes_ends_as_the_uninterrupted_one"),
    (Flat, "test_integers_and_text_of_a_batch_stay_what_they_are"),
    (Targets, "test_integers_and_text_of_a_batch_stay_what_they_are"),
    (Deaf, "test_a_step_is_taken_and_its_answer_passed_on"),
    (Remembers, "test_its_state_is_plain_data_and_goes_back"),
    (Underflows, "test_training_evaluation_and_prediction_work_with_it"),
]


@pytest.mark.parametrize(("kind", "test"), PRECISIONS)
def test_a_wrong_precision_fails_where_it_is_wrong(kind, test, caught_by):
    class Wrong(PrecisionKit):
        __test__ = False

        def make_precision(self):
            return kind()

    try:
        assert caught_by(Wrong, test)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", False)
        torch.autocast_increment_nesting()
        while torch.autocast_decrement_nesting() > 0:  # within autocast its copies of weights are never dropped
            pass


@pytest.mark.parametrize("kit", [AcceleratorKit, CallbackKit, CheckpointKit, PrecisionKit])
def test_a_test_of_a_kit_cannot_be_replaced_without_a_reason(kit):
    name = next(name for name in vars(kit) if name.startswith("test_"))

    def replacement(self):
        pass

    with pytest.raises(TypeError, match=r"mark it xfail\(reason=...\)"):
        type("TestMine", (kit,), {name: replacement})
    type("TestDeclared", (kit,), {"__test__": False, name: pytest.mark.xfail(reason="known")(replacement)})
