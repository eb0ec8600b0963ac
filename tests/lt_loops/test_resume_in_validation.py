"""A signal ends a validation in its middle; the resume repeats it, and all ends as if it had not stopped."""

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
        done = next(index for index, row in enumerate(expected) if row == second[0])
        assert first[:done] + second == expected  # what is repeated is logged again
        assert first == expected[: len(first)]  # nothing of half a validation's means
        epoch = next(place for place, batch in enumerate(whole.validated[2:], 2) if batch[0] == at[0])
        assert cut.validated + again.validated == (
            *whole.validated[: whole.validated.index(at) + 1],
            *whole.validated[epoch:],
        )

    return run


def shuffled():
    return DataLoader(Noisy(), batch_size=3, shuffle=True)


def with_workers():
    return DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=1)


@pytest.mark.parametrize("at", [(3, 0, 0), (8, 0, 2), (8, 0, 3)], ids=["first batch", "middle", "last batch"])
def test_it_is_repeated_and_all_is_equal(compare, at):
    compare(shuffled, at)


def test_so_it_is_with_two_loaders(compare):
    compare(lambda: [shuffled(), DataLoader(Noisy(), batch_size=4)], (8, 1, 1))


def test_workers_that_draw_do_it_again_as_they_did(compare):
    compare(with_workers, (3, 0, 1))


def test_metric_objects_begin_anew(compare, net):
    torchmetrics = pytest.importorskip("torchmetrics")

    class Measured(net):
        def __init__(self):
            super().__init__()
            self.metric = torchmetrics.Accuracy(task="multiclass", num_classes=3)

    compare(shuffled, (3, 0, 2), Measured)


class OwnOrder(RandomSampler):
    """Another order each time, which no checkpoint knows."""


def own_order():
    data = Noisy()
    return DataLoader(data, batch_size=3, sampler=OwnOrder(data))


def test_so_it_is_with_a_sampler_of_ones_own(compare):
    compare(own_order, (3, 0, 1))


def test_what_a_module_gathers_is_gathered_again(compare, net):
    class Gathers(net):
        def on_validation_epoch_start(self):
            self.outputs = []

        def on_validation_batch_end(self, outputs, batch, batch_idx):
            self.outputs.append(batch[1].sum())

        def on_validation_epoch_end(self):
            self.log("sum", torch.stack(self.outputs).sum().float())

    compare(lambda: DataLoader(Noisy(), batch_size=3), (3, 0, 1), Gathers)


def test_what_a_callback_gathers_is_gathered_again(compare):
    class Gathers(Callback):
        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
            self.seen = True

        def on_validation_end(self, trainer, pl_module):
            self.seen = False

    compare(shuffled, (3, 0, 1), callbacks=[Gathers()])
