"""Arguments that would do nothing in a fit are said to, once."""

import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core import ConfigError, LightningModule, LtWarning
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.validated = []

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.validated.append(self.trainer.global_step)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class OwnClipping(Net):
    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.clip_gradients(optimizer, 1.0, gradient_clip_algorithm)


def fit(module=None, **arguments):
    """Fit 8 batches of 4 samples an epoch; the codes of the warnings, and after which steps it validated."""
    module = module or Net()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = Trainer(**{**QUIET, "accelerator": "cpu", "num_sanity_val_steps": 0, "max_epochs": 2, **arguments})
        trainer.fit(module, DataLoader(torch.ones(32, 2), 4), DataLoader(torch.ones(8, 2), 4))
    return [str(w.message)[-6:-1] for w in caught if issubclass(w.category, LtWarning)], module.validated


@pytest.mark.parametrize(
    "arguments",
    [
        {"val_check_interval": "40 steps"},
        {"val_check_interval": {"hours": 1}},
        {"val_check_interval": 40, "check_val_every_n_epoch": None},
        {"check_val_every_n_epoch": 5},
        {"check_val_every_n_epoch": 2, "max_steps": 3},
    ],
)
def test_a_validation_that_never_comes_is_told(arguments):
    assert fit(**arguments) == (["LT362"], [])


def test_one_after_samples_that_are_never_read_is_told_at_the_end():
    pytest.importorskip("lt_data", reason="it counts samples")
    assert fit(val_check_interval="1e9 samples") == (["LT362"], [])


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({"max_steps": 3}, []),
        ({"val_check_interval": "16 steps"}, [16]),
        ({"val_check_interval": "1 run"}, [16]),
        ({"max_time": "3 epochs", "max_epochs": None, "check_val_every_n_epoch": 2}, [16]),
        ({"check_val_every_n_epoch": 5, "limit_val_batches": 0}, []),
        ({"check_val_every_n_epoch": 5, "fast_dev_run": True}, [1]),
    ],
)
def test_one_that_comes_or_is_not_asked_for_is_not(arguments, steps):
    codes, validated = fit(**arguments)
    assert codes == []
    assert sorted(set(validated)) == steps


def test_an_algorithm_that_has_nothing_to_clip_is_told():
    assert fit(gradient_clip_algorithm="value")[0] == ["LT368"]
    assert fit(gradient_clip_algorithm="value", gradient_clip_val=0.0)[0] == []
    assert fit(OwnClipping(), gradient_clip_algorithm="value")[0] == []


def test_a_trial_run_says_that_it_overfits_nothing():
    codes, validated = fit(fast_dev_run=2, overfit_batches=1)
    assert codes == ["LT369"]
    assert validated == [2, 2]


def test_too_small_a_part_to_overfit_on_is_named_as_it_was_written():
    with pytest.raises(ConfigError, match=r"overfit_batches=0.1 of 8 batches"):
        fit(overfit_batches=0.1)
    with pytest.raises(ConfigError, match=r"overfit_batches=0.2 of 2 batches"):
        fit(overfit_batches=0.2)
