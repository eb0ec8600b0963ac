"""Values on a device are summed there in bunches, as exactly as those that are read at once."""

import pytest
import torch

from lt_core.logging.recorder import Given
from lt_loops.logging.recorder import RunRecorder


def slot_of(reduce_fx="mean"):
    recorder = RunRecorder()
    recorder.enter("train_batch")
    return recorder.resolve("x", Given(on_step=False, on_epoch=True, reduce_fx=reduce_fx))


def log(slot, values, weight):
    """Log as values on a device are logged; the CPU stands in for one."""
    for value in values:
        slot._take_dtype(value)
        slot._keep(value, weight)
    return slot.epoch_value()


BIG = [torch.tensor(2**53 + 2 * i) for i in range(100)]


@pytest.mark.parametrize("reduce_fx", ["sum", "max", "min"])
def test_big_integers_keep_all_digits(reduce_fx):
    expected = {"sum": sum, "max": max, "min": min}[reduce_fx](int(value) for value in BIG)
    assert int(log(slot_of(reduce_fx), BIG, None)) == expected


@pytest.mark.parametrize("weight", [3, 0.5])
def test_means_of_big_integers_are_float64(weight):
    values = [torch.tensor(2**30 + i) for i in range(100)]
    mean = log(slot_of(), values, weight)
    assert mean.dtype == torch.float64
    assert mean.item() == 2**30 + 49.5


def test_float32_values_are_summed_in_float64_and_shown_in_float32():
    mean = log(slot_of(), [torch.tensor(0.1)] * 1000, 4)
    assert mean.dtype == torch.float32
    assert mean == torch.tensor(0.1)


def test_float64_values_keep_their_digits():
    assert log(slot_of(), [torch.tensor(1 / 3, dtype=torch.float64)] * 8, 2).item() == 1 / 3


def test_half_precision_is_shown_in_float32():
    mean = log(slot_of(), [torch.tensor(1.0, dtype=torch.float16), torch.tensor(2.0, dtype=torch.float16)], 1)
    assert (mean.dtype, mean.item()) == (torch.float32, 1.5)
