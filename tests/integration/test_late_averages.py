"""An average that begins late: whatever reads it before it is there finds the weights that are trained."""

import copy
import signal

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_averaging import EMAWeightAveraging, StochasticWeightAveraging, WeightAveraging
from lt_callbacks import ModelCheckpoint
from lt_core import Callback, LightningModule
from lt_loops import Trainer

STEPS = 4  # of an epoch


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.seen, self.stops_at = [], None

    def training_step(self, batch, batch_idx):
        if self.global_step == self.stops_at:
            signal.raise_signal(signal.SIGTERM)
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.seen.append(copy.deepcopy(self.layers.state_dict()))

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(2)
        x = torch.rand(4 * STEPS, 3, generator=generator)
        return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)

    def val_dataloader(self):
        return DataLoader(torch.zeros(1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Witness(Callback):
    """Keeps the weights after each optimizer step."""

    def __init__(self):
        self.trained = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.trained.append(copy.deepcopy(pl_module.layers.state_dict()))


class Own(WeightAveraging):
    def should_update(self, step_idx=None, epoch_idx=None):
        return step_idx is not None and step_idx >= 6


def ema(mean, new, count):
    return torch.lerp(mean, new, 0.5) if new.is_floating_point() else new


def equal(mean, new, count):
    return mean + (new - mean) / (count + 1) if new.is_floating_point() else new


LATE = {  # the callback, the steps (from 1) after which it updates, and how
    "at a step": (lambda: EMAWeightAveraging(decay=0.5, update_starting_at_step=5), range(6, 13), ema),
    "at an epoch": (
        lambda: EMAWeightAveraging(decay=0.5, update_starting_at_step=10**6, update_starting_at_epoch=1),
        (8.5, 12.5),  # behind the validation of that step
        ema,
    ),
    "by a duration": (lambda: WeightAveraging(every="6 steps"), (6, 12), equal),
    "by a method": (Own, range(7, 13), equal),
    "never": (lambda: EMAWeightAveraging(update_starting_at_step=10**6), (), ema),
}
late = pytest.mark.parametrize(("make", "updates", "rule"), LATE.values(), ids=LATE)


def average(trained, updates, rule, step):
    """Return by hand what there is after ``step``: the average, or the weights while there is none."""
    mean, done = None, [update for update in updates if update <= step]
    for count, update in enumerate(done):
        new = trained[int(update) - 1]
        mean = new if mean is None else {name: rule(mean[name], new[name], count) for name in new}
    return trained[min(step, len(trained)) - 1] if mean is None else mean


def same(found, expected):
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


def fit(folder, callbacks, module, epochs=3, **how):
    keep = ModelCheckpoint(folder, filename="{step}", auto_insert_metric_name=False, save_top_k=-1)
    arguments = {"max_epochs": epochs, "val_check_interval": 2, "num_sanity_val_steps": 1}
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = Trainer(callbacks=[*callbacks, keep], **arguments, **quiet)
    trainer.on_signal = "return"
    trainer.fit(module, **how)
    return trainer


def in_file(path):
    weights = torch.load(path, weights_only=True)["state_dict"]
    return {name.removeprefix("layers."): value for name, value in weights.items()}


@late
def test_validation_file_and_module_have_the_weights_until_the_average_begins(make, updates, rule, tmp_path):
    module, witness = Net(), Witness()
    fit(tmp_path, [make(), witness], module)
    for step, seen in zip(range(2, 13, 2), module.seen[1:], strict=True):  # the first is of the sanity check
        expected = average(witness.trained, updates, rule, step)
        same(seen, expected)
        same(in_file(tmp_path / f"{step}.ckpt"), expected)
        loaded = Net.load_from_checkpoint(tmp_path / f"{step}.ckpt")
        same(loaded.layers.state_dict(), expected)
    same(module.layers.state_dict(), average(witness.trained, updates, rule, 13))


class AtEnds(WeightAveraging):
    def should_update(self, step_idx=None, epoch_idx=None):
        return epoch_idx is not None


BY_EPOCHS = {  # the steps after which it is updated; by halves: behind the validation of that step, as in Lightning
    "a duration": (lambda: WeightAveraging(every="1 epochs"), (4, 8, 12), equal),
    "a duration of an EMA": (lambda: EMAWeightAveraging(decay=0.5, every="1 epochs"), (4, 8, 12), ema),
    "a method": (AtEnds, (4.5, 8.5, 12.5), equal),
}


@pytest.mark.parametrize(("make", "updates", "rule"), BY_EPOCHS.values(), ids=BY_EPOCHS)
def test_the_validation_of_an_epoch_has_the_average_through_it_where_a_duration_says_when(
    make, updates, rule, tmp_path
):
    test_validation_file_and_module_have_the_weights_until_the_average_begins(make, updates, rule, tmp_path)


@late
@pytest.mark.parametrize("step", [4, 6, 8])
def test_a_resume_ends_as_the_whole_run(make, updates, rule, step, tmp_path, recwarn):
    whole, resumed = Net(), Net()
    fit(tmp_path, [make()], whole)
    fit(tmp_path / "resumed", [make()], resumed, ckpt_path=tmp_path / f"{step}.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
    same(in_file(tmp_path / "resumed" / "12.ckpt"), in_file(tmp_path / "12.ckpt"))
    assert not [warning for warning in recwarn if "average" in str(warning.message)]


@late
def test_a_file_without_an_average_yet_resumes_without_the_callback_too(make, updates, rule, tmp_path, recwarn):
    module = Net()
    fit(tmp_path, [make()], module, epochs=1)
    plain, resumed = Net(), Net()
    fit(tmp_path / "plain", [], plain)
    fit(tmp_path / "resumed", [], resumed, ckpt_path=tmp_path / "4.ckpt")
    for name, value in plain.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
    assert not [warning for warning in recwarn if "LT626" in str(warning.message)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: EMAWeightAveraging(decay=0.5),
        lambda: EMAWeightAveraging(decay=0.5, update_starting_at_step=5),
        lambda: StochasticWeightAveraging(0.05, swa_epoch_start=1),
    ],
)
@pytest.mark.parametrize("stops_at", [3, 9])
def test_an_interrupted_fit_that_goes_on_keeps_its_average(make, stops_at, tmp_path):
    whole, stopped = Net(), Net()
    fit(tmp_path / "whole", [make()], whole)
    stopped.stops_at = stops_at
    trainer = fit(tmp_path / "stopped", [make()], stopped)
    assert trainer.interrupted
    stopped.stops_at = None
    trainer.fit(stopped)
    for name, value in whole.state_dict().items():
        assert torch.equal(stopped.state_dict()[name], value), name
