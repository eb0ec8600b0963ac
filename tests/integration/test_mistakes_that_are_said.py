"""Mistakes that stop no run and that Lightning warns of: lt says them once, before the first batch."""

import warnings
from contextlib import nullcontext
from types import MethodType

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from lt_callbacks import LearningRateMonitor, ModelCheckpoint
from lt_compat.lightning.trainer import trainer_class
from lt_core import Callback, LightningModule
from lt_loggers import CSVLogger
from lt_loops import Trainer

QUIET = {"accelerator": "cpu", "max_epochs": 1, "enable_progress_bar": False, "enable_model_summary": False}


class Net(LightningModule):
    """A layer whose optimizer is of a class with or without momentum."""

    def __init__(self, optimizer=torch.optim.SGD):
        super().__init__()
        self.layer, self.optimizer = nn.Linear(2, 1), optimizer

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("v", self.layer(batch[0]).mean())

    test_step = validation_step

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self.layer(batch[0])

    def configure_optimizers(self):
        return self.optimizer(self.parameters(), 0.1)


def loader(shuffle=None, **arguments):
    return DataLoader(TensorDataset(torch.rand(4, 2)), batch_size=2, shuffle=shuffle, **arguments)


def codes(run):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run()
    return [str(one.message)[-6:-1] for one in said if str(one.message).endswith("]")]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def plain(**arguments):
    return Trainer(logger=False, **{"enable_checkpointing": False, **QUIET, **arguments})


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("stage", ["fit", "validate", "test", "predict"])
@pytest.mark.parametrize("by_hook", [True, False])
def test_under_compat_an_evaluation_in_random_order(by_hook, stage, shuffle):
    kind, module = {"fit": "val", "validate": "val"}.get(stage, stage), Net()
    given = [loader(shuffle=True)] * (stage == "fit") + [loader(shuffle)] * (not by_hook)
    if by_hook:
        setattr(module, f"{kind}_dataloader", lambda: loader(shuffle))
    trainer = trainer_class()(logger=False, enable_checkpointing=False, **QUIET)
    assert codes(lambda: getattr(trainer, stage)(module, *given)) == ["LT319"] * shuffle


def failing(self, batch, batch_idx):
    raise KeyError("of the user")


@pytest.mark.parametrize(
    ("stage", "arguments", "steps", "said"),
    [
        ("fit", {}, ["validation_step"], ["LT319"]),
        ("fit", {}, ["training_step"], ["LT319"]),  # the sanity check has read it
        ("validate", {}, ["validation_step"], ["LT319"]),
        ("test", {}, ["test_step"], ["LT319"]),
        ("predict", {}, ["predict_step"], ["LT319"]),
        ("test", {"overfit_batches": 1}, [], ["LT319"]),  # which overfit_batches leaves alone
        ("predict", {"overfit_batches": 1}, [], ["LT319"]),
        ("validate", {"overfit_batches": 1}, [], ["LT406"]),
        ("fit", {"overfit_batches": 1}, [], ["LT406"]),
    ],
)
def test_under_compat_a_random_order_beside_a_failing_step_and_overfit_batches(stage, arguments, steps, said):
    module, given = Net(), [loader()] * (stage == "fit") + [loader(True)]
    vars(module).update({name: MethodType(failing, module) for name in steps})
    trainer = trainer_class()(
        logger=False, enable_checkpointing=False, **{**QUIET, **arguments, "num_sanity_val_steps": 1}
    )

    def run():
        with pytest.raises(KeyError, match="of the user") if steps else nullcontext():
            getattr(trainer, stage)(module, *given)

    assert codes(run) == said


class Own(RandomSampler):
    """A user's."""


class Batches(list):
    """No DataLoader, with a sampler of its user."""

    sampler = RandomSampler(range(2))


ROWS = range(4)


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (loader(sampler=Own(ROWS)), ["LT319"]),
        (DataLoader(loader().dataset, batch_sampler=BatchSampler(RandomSampler(ROWS), 2, False)), ["LT319"]),
        (DataLoader(loader().dataset, batch_sampler=BatchSampler(SequentialSampler(ROWS), 2, False)), []),
        (DataLoader(loader().dataset, batch_sampler=[[0, 1], [2, 3]]), []),
        (loader(sampler=SubsetRandomSampler(ROWS)), []),
        (loader(sampler=WeightedRandomSampler([1.0] * 4, 4)), []),
        (Batches(loader()), []),
    ],
)
def test_under_compat_whose_sampler_draws_a_random_order(loader, said):
    trainer = trainer_class()(logger=False, enable_checkpointing=False, **QUIET)
    assert codes(lambda: trainer.validate(Net(), loader)) == said


@pytest.mark.parametrize(
    ("optimizer", "log_momentum", "said"),
    [
        (torch.optim.Adagrad, True, ["LT247"]),
        (torch.optim.Adagrad, False, []),
        (torch.optim.SGD, True, []),
        (torch.optim.Adam, True, []),
    ],
)
def test_momentum_of_an_optimizer_that_has_none(optimizer, log_momentum, said):
    monitor = LearningRateMonitor(log_momentum=log_momentum)
    trainer = Trainer(
        logger=CSVLogger("logs"), callbacks=monitor, enable_checkpointing=False, log_every_n_steps=1, **QUIET
    )
    assert codes(lambda: trainer.fit(Net(optimizer), loader(), loader())) == said


@pytest.mark.parametrize(
    ("monitors", "said"),
    [(["v"], []), (["v", None], []), ([None, "v"], ["LT248"]), (["v", "loss"], ["LT248"])],
)
def test_the_best_of_several_checkpoint_callbacks(monitors, said):
    callbacks = [ModelCheckpoint(f"of_{name}", monitor=name) for name in monitors]
    trainer, module = plain(callbacks=callbacks, enable_checkpointing=True), Net()
    trainer.fit(module, loader(), loader())
    assert codes(lambda: trainer.test(module, loader(), ckpt_path="best")) == said


def test_callbacks_of_ones_own_that_write_checkpoints_need_no_monitor():
    class Own(Callback):
        role = "checkpoint"
        best_model_path = ""

        def on_train_end(self, trainer, pl_module):
            self.best_model_path = "own.ckpt"
            trainer.save_checkpoint(self.best_model_path)

    trainer, module = (
        plain(callbacks=[Own(), Own(), ModelCheckpoint("theirs", monitor="v")], enable_checkpointing=True),
        Net(),
    )
    trainer.fit(module, loader(), loader())
    assert codes(lambda: trainer.test(module, loader(), ckpt_path="best")) == ["LT248"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"deterministic": True, "benchmark": True}, ["LT318"]),
        ({"deterministic": "warn", "benchmark": True}, ["LT318"]),
        ({"deterministic": True, "benchmark": False}, []),
        ({"deterministic": True}, []),
        ({"benchmark": True}, []),
    ],
)
def test_a_run_that_repeats_with_algorithms_chosen_by_speed(arguments, said):
    assert codes(lambda: plain(**arguments)) == said
