"""Checks through the Trainer: fit, evaluation, prediction, resume. They need lt-loops and lt-data."""
# ruff: noqa: D103  a check's name is its sentence

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from lt_core import plugins
from lt_core.module import LightningModule
from lt_testing.strategy.bench import (
    CLASSES,
    FEATURES,
    SAMPLES,
    Batch,
    Bench,
    SmallNet,
    sgd,
    train_plainly,
)
from lt_testing.strategy.checks import check
from lt_testing.training import QUIET


class Lit(LightningModule):
    """The small module as a LightningModule."""

    def __init__(self, seed: int = 0) -> None:
        """Make the parameters from ``seed``."""
        super().__init__()
        self.net = SmallNet(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss."""
        return self.net.training_step(batch, batch_idx)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log two means: of the samples' losses, and of a number that counts samples."""
        losses = (self.net(batch[0]) - batch[1]).pow(2).mean(1)
        self.log("loss", losses.double().mean(), batch_size=len(losses))
        self.log("count", float(len(losses)), reduce_fx="sum")

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the values."""
        values: Tensor = self.net(batch[0])
        return values

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return SGD with momentum."""
        return sgd(self.parameters())


class Manual(Lit):
    """The same step in manual optimization."""

    def __init__(self) -> None:
        """Turn automatic optimization off."""
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Take the step by hand."""
        optimizer: Any = self.optimizers()
        loss = self.loss(super().training_step(batch, batch_idx))
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return loss

    def loss(self, loss: Tensor) -> Tensor:
        """Return the loss for backward."""
        return loss


class Uneven(Manual):
    """Has a parameter that only rank 0 uses."""

    def __init__(self) -> None:
        """Make it."""
        super().__init__()
        self.extra = torch.nn.Parameter(torch.ones(()))

    def loss(self, loss: Tensor) -> Tensor:
        """Return the loss, of rank 0 by way of its own parameter."""
        return loss * self.extra if self.global_rank == 0 else loss


def _dataset(samples: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(17)
    inputs = torch.randn(samples, FEATURES, generator=generator)
    return TensorDataset(inputs, inputs[:, :CLASSES].cumsum(1))


def _loader(bench: Bench, samples: int, *, joined: bool = False) -> DataLoader[Any]:
    return DataLoader(_dataset(samples), batch_size=SAMPLES * (bench.world_size if joined else 1))


def _trainer(bench: Bench, **arguments: Any) -> Any:
    make = plugins.find("trainers", "default")
    if make is None or (bench.world_size > 1 and plugins.find("data", "feed") is None):
        bench.skip("needs the Trainer and sharded data: lt-loops and lt-data")
    return make(
        devices=len(bench.placement.devices),
        strategy=bench.made(),
        plugins=[bench.environment],
        default_root_dir=str(bench.folder),
        **{
            **QUIET,
            "accelerator": bench.placement.accelerator,
            "max_epochs": 1,
            "num_sanity_val_steps": 0,
            **arguments,
        },
    )


def _by_hand(bench: Bench, samples: int, *, window: int = 1, clip: float | None = None, epochs: int = 1) -> Any:
    """Train by plain torch on batches as large as all ranks' together; return the state dict."""
    module = Lit()
    optimizer = module.configure_optimizers()
    for _ in range(epochs):
        train_plainly(module, optimizer, _loader(bench, samples, joined=True), window, clip)
    return module.state_dict()


def _fitted(bench: Bench, module: Lit, samples: int, **arguments: Any) -> Any:
    trainer = _trainer(bench, **arguments)
    trainer.fit(module, _loader(bench, samples))
    return trainer.strategy.full_module_state(trainer.model)


@check(needs=("exact",))
def fit_equals_plain_torch_on_the_joined_batches(bench: Bench) -> None:
    samples = 6 * SAMPLES * bench.world_size
    mine = _fitted(bench, Lit(), samples, max_epochs=2)
    bench.assert_close(mine, _by_hand(bench, samples, epochs=2))


@check(needs=("exact",))
def fit_with_accumulation_and_clipping_equals_plain_torch(bench: Bench) -> None:
    samples = 6 * SAMPLES * bench.world_size
    mine = _fitted(bench, Lit(), samples, accumulate_grad_batches=2, gradient_clip_val=0.05)
    bench.assert_close(mine, _by_hand(bench, samples, window=2, clip=0.05))


@check(needs=("exact",))
def fit_in_manual_optimization_equals_plain_torch(bench: Bench) -> None:
    samples = 4 * SAMPLES * bench.world_size
    mine = _fitted(bench, Manual(), samples)
    bench.assert_close(mine, _by_hand(bench, samples))


@check(needs=("synchronous",), unless=("forward_needs_all_ranks",), ranks=2)
def parameters_that_one_rank_alone_uses_stay_the_same_on_all_ranks(bench: Bench) -> None:
    trainer, module = _trainer(bench), Uneven()
    trainer.fit(module, _loader(bench, 4 * SAMPLES * bench.world_size))
    state = trainer.strategy.full_module_state(trainer.model)
    assert state["extra"] != 1.0
    bench.assert_equal_on_ranks(trainer.strategy, state)


@check()
def fit_takes_the_steps_that_the_data_hold(bench: Bench) -> None:
    trainer = _trainer(bench)
    trainer.fit(Lit(), _loader(bench, 6 * SAMPLES * bench.world_size))
    assert trainer.global_step == 6


@check()
def evaluation_counts_each_of_13_samples_once(bench: Bench) -> None:
    for samples in (13, 7, 1):
        (mine,) = _trainer(bench).validate(Lit(), _loader(bench, samples), verbose=False)
        inputs, targets = _dataset(samples).tensors
        with torch.no_grad():
            expected = (Lit().net(inputs) - targets).pow(2).mean(1).double().mean().item()
        assert mine["count"] == samples
        torch.testing.assert_close(mine["loss"], expected, rtol=1e-5, atol=bench.tolerance)


@check()
def evaluation_of_a_checkpoint_is_that_of_its_weights(bench: Bench) -> None:
    first = _trainer(bench)
    (expected,) = first.validate(Lit(seed=4), _loader(bench, 12), verbose=False)
    path = bench.folder / "weights.ckpt"
    first.save_checkpoint(path, weights_only=True)
    (found,) = _trainer(bench).validate(Lit(seed=5), _loader(bench, 12), ckpt_path=str(path), verbose=False)
    torch.testing.assert_close(found["loss"], expected["loss"], rtol=1e-5, atol=bench.tolerance)


@check()
def predictions_are_complete_and_in_the_data_s_order(bench: Bench) -> None:
    samples = 4 * SAMPLES * bench.world_size + 3
    found = _trainer(bench).predict(Lit(), _loader(bench, samples))
    with torch.no_grad():
        expected = Lit().net(_dataset(samples).tensors[0])
    torch.testing.assert_close(torch.cat(found).cpu(), expected, rtol=1e-5, atol=bench.tolerance)


@check(needs=("exact",))
def a_run_that_resumes_ends_as_the_uninterrupted_one(bench: Bench) -> None:
    samples = 6 * SAMPLES * bench.world_size
    first = _trainer(bench, max_steps=4)
    first.fit(Lit(), _loader(bench, samples))
    path = bench.folder / "resume.ckpt"
    first.save_checkpoint(path)
    second = _trainer(bench)
    second.fit(Lit(seed=3), _loader(bench, samples), ckpt_path=str(path))
    bench.assert_close(second.strategy.full_module_state(second.model), _by_hand(bench, samples))


@check(unless=("exact",))
def replicas_that_differ_go_on_as_they_were_when_a_run_resumes(bench: Bench) -> None:
    """``Strategy.state_dict`` holds a rank's state beyond module and optimizers."""
    samples = 6 * SAMPLES * bench.world_size
    whole = _trainer(bench, max_epochs=2)
    whole.fit(Lit(), _loader(bench, samples))
    first = _trainer(bench, max_steps=5)
    first.fit(Lit(), _loader(bench, samples))
    path = bench.folder / "replicas.ckpt"
    first.save_checkpoint(path)
    second = _trainer(bench, max_epochs=2)
    second.fit(Lit(seed=3), _loader(bench, samples), ckpt_path=str(path))
    bench.assert_close(second.model.state_dict(), whole.model.state_dict())
