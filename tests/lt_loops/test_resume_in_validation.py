"""A signal ends a validation in its middle; the resume goes on with the next batch, where their order is sure."""

import os
import signal

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from lt_core import Callback, Logger


class Noisy(Dataset):
    """Draws for each sample, as an augmentation does."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.full((8,), float(index)) + torch.randn(8), index % 3


class Rows(Logger):
    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))


class SavesWhenInterrupted(Callback):
    def __init__(self, path):
        self.path = path

    def on_interrupt(self, trainer, pl_module):
        trainer.request_save(self.path, owner=self)


@pytest.fixture
def compare(trainer, net, loader, seeded, same, tmp_path):
    """Compare a run that a signal ended in a validation, and its resume, with one that was not stopped."""

    def fit(module, val, path=None, **more):
        rows, callbacks = Rows(), [SavesWhenInterrupted(tmp_path / "cut.ckpt"), *more.pop("callbacks", ())]
        arguments = {"max_epochs": 2, "val_check_interval": 3, "logger": rows, "on_signal": "return"}
        made = trainer(callbacks=callbacks, log_every_n_steps=1, **arguments)
        made.fit(module, loader(18), val, ckpt_path=path)
        return rows.rows, made.callback_metrics

    def run(val, at, kind=None, **more):
        class Interrupted(kind or net):
            stops, validated = None, ()

            def validation_step(self, batch, batch_idx, dataloader_idx=0):
                self.validated = (*self.validated, (self.global_step, dataloader_idx, batch_idx))
                self.log("seen", self.loss(batch) + torch.rand(()), on_step=True, on_epoch=True)
                self.log("largest", batch[0].max(), reduce_fx="max")
                if hasattr(self, "metric"):
                    self.metric(self(batch[0]), batch[1])
                    self.log("accuracy", self.metric)
                if self.validated[-1] == self.stops:
                    os.kill(os.getpid(), signal.SIGTERM)

        whole = seeded(Interrupted)
        expected, metrics = fit(whole, val(), **more)
        cut = seeded(Interrupted)
        cut.stops = at
        first, _ = fit(cut, val(), **more)
        again = Interrupted()
        second, ended = fit(again, val(), tmp_path / "cut.ckpt", **more)
        same(again, whole)
        assert ended == metrics
        parts = cut.validated + again.validated
        assert first + second == expected or parts != whole.validated  # what is repeated is logged again
        return whole.validated, parts

    return run


def shuffled():
    return DataLoader(Noisy(), batch_size=3, shuffle=True)


def with_workers():
    return DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=1)


@pytest.mark.parametrize("at", [(3, 0, 0), (8, 0, 2), (8, 0, 3)], ids=["first batch", "middle", "last batch"])
def test_no_batch_is_validated_twice_and_all_is_equal(compare, at):
    whole, parts = compare(shuffled, at)
    assert parts == whole


def test_the_second_of_two_loaders_goes_on(compare):
    whole, parts = compare(lambda: [shuffled(), DataLoader(Noisy(), batch_size=4)], (8, 1, 1))
    assert parts == whole


def test_workers_that_draw_do_it_again_as_they_did(compare):
    whole, parts = compare(with_workers, (3, 0, 1))
    assert parts == whole


def test_metric_objects_keep_what_they_saw(compare, net):
    torchmetrics = pytest.importorskip("torchmetrics")

    class Measured(net):
        def __init__(self):
            super().__init__()
            self.metric = torchmetrics.Accuracy(task="multiclass", num_classes=3)

    whole, parts = compare(shuffled, (3, 0, 2), Measured)
    assert parts == whole


class OwnOrder(RandomSampler):
    """Another order each time, which no checkpoint knows."""


def own_order():
    data = Noisy()
    return DataLoader(data, batch_size=3, sampler=OwnOrder(data))


def test_with_an_order_that_nobody_knows_the_validation_is_repeated(compare):
    whole, parts = compare(own_order, (3, 0, 1))
    assert parts == (*whole[:4], *whole[2:])  # the first two are the sanity check


def test_what_a_module_gathers_is_gathered_again(compare, net):
    class Gathers(net):
        def on_validation_epoch_start(self):
            self.outputs = []

        def on_validation_batch_end(self, outputs, batch, batch_idx):
            self.outputs.append(batch[1].sum())

        def on_validation_epoch_end(self):
            self.log("sum", torch.stack(self.outputs).sum().float())

    whole, parts = compare(lambda: DataLoader(Noisy(), batch_size=3), (3, 0, 1), Gathers)
    assert parts == (*whole[:4], *whole[2:])  # the first two are the sanity check


def test_what_a_callback_gathers_is_gathered_again(compare):
    class Gathers(Callback):
        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
            self.seen = True

        def on_validation_end(self, trainer, pl_module):
            self.seen = False

    whole, parts = compare(shuffled, (3, 0, 1), callbacks=[Gathers()])
    assert parts == (*whole[:4], *whole[2:])  # the first two are the sanity check


def test_a_file_of_another_moment_holds_nothing_of_a_validation(trainer, net, tmp_path):
    class Validated(net):
        def validation_step(self, batch, batch_idx):
            self.log("loss", self.loss(batch))

    made = trainer()
    made.fit(Validated(), shuffled(), shuffled())
    made.save_checkpoint(tmp_path / "end.ckpt")
    assert "validation" not in torch.load(tmp_path / "end.ckpt")["lt"]["ranks"][0]


@pytest.mark.parametrize("other", [{"batch_size": 3}, {"limit_val_batches": 1}], ids=str)
def test_a_validation_of_other_batches_begins_anew(other, trainer, net, loader, tmp_path):
    class Interrupted(net):
        stops, largest = False, ()

        def validation_step(self, batch, batch_idx):
            self.log("mean", batch.mean())
            if self.stops and batch_idx == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    def fit(stops, batch_size=4, path=None, **more):
        arguments = {"num_sanity_val_steps": 0, "callbacks": [SavesWhenInterrupted(cut)], "on_signal": "return"}
        made, module = trainer(**arguments, **more), Interrupted()
        module.stops = stops
        made.fit(module, loader(4), DataLoader(torch.arange(9.0), batch_size=batch_size), ckpt_path=path)
        return made.callback_metrics

    cut = tmp_path / "cut.ckpt"
    fit(stops=True)
    assert fit(stops=False, path=cut, **other) == {"mean": 4.0 if "batch_size" in other else 1.5}
