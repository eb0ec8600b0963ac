"""Callbacks by which ranks do not wait for one another: garbage collected at the same batches, the slow one named."""

import gc
import re
import time
import traceback
import warnings

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from lt_callbacks import EarlyStopping, ModelCheckpoint
from lt_core import Callback, LightningModule
from lt_core.errors import ConfigError
from lt_loops import Trainer
from lt_parallel import FSDP
from lt_profilers import GarbageCollection, SlowRankMonitor
from lt_strategies import DDP

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Samples(Dataset):
    """Twenty samples; on rank 1 each takes a while to read where ``slow`` is "loader"."""

    def __init__(self, slow=""):
        self.slow, self.rank = slow, 0

    def __len__(self):
        return 20

    def __getitem__(self, index):
        time.sleep(0.1 if self.slow == "loader" and self.rank == 1 else 0)
        return torch.ones(2)


class Net(LightningModule):
    def __init__(self, slow="", hook=None):
        super().__init__()
        self.layer, self.slow, self.hook = torch.nn.Linear(2, 1), slow, hook

    def on_train_start(self):
        self.trainer.train_dataloader.dataset.rank = self.trainer.global_rank

    def training_step(self, batch, batch_idx):
        if self.hook is not None:
            self.hook(batch_idx)
        time.sleep(0.1 if self.slow == "step" and self.trainer.global_rank == 1 else 0)
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Knot:
    """Unreachable by itself, and kept by nothing but a collection to come."""

    def __init__(self):
        self.me = self


def knots():
    return sum(type(each) is Knot for each in gc.get_objects())


def test_garbage_is_collected_at_the_set_batches_and_not_in_between():
    found = []

    def look(batch_idx):
        found.append(knots())
        Knot()

    trainer = Trainer(max_epochs=1, callbacks=[GarbageCollection(every_n_batches=3)], **QUIET)
    trainer.fit(Net(hook=look), DataLoader(Samples(), batch_size=2))
    assert found == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert knots() == 0
    assert gc.isenabled()


@pytest.mark.parametrize("was_on", [True, False])
def test_a_fit_that_raises_leaves_collection_as_it_was(was_on):
    def fails(batch_idx):
        assert not gc.isenabled()
        raise KeyError("on purpose")

    trainer = Trainer(max_epochs=1, callbacks=[GarbageCollection()], **QUIET)
    try:
        if not was_on:
            gc.disable()
        with pytest.raises(KeyError, match="on purpose"):
            trainer.fit(Net(hook=fails), DataLoader(Samples()))
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


def test_batches_are_counted_on_through_epochs_that_are_shorter_than_a_report():
    monitor = SlowRankMonitor(every_n_batches=15)
    Trainer(max_epochs=2, callbacks=[monitor], **QUIET).fit(Net(), DataLoader(Samples(), batch_size=2))
    assert [times.rank for times in monitor.times] == [0]


@pytest.mark.parametrize("arguments", [{"every_n_batches": 1}, {"ratio": 0.5}])
def test_what_cannot_be_measured_is_refused(arguments):
    with pytest.raises(ConfigError, match=r"SlowRankMonitor\("):
        SlowRankMonitor(**arguments)


@pytest.mark.ddp
@pytest.mark.parametrize("slow", ["step", "loader", ""])
def test_the_rank_that_keeps_the_others_waiting_is_named_with_its_cause(slow, capfd):
    pytest.importorskip("lt_strategies")
    ratio = 3.0 if slow else 1e6
    trainer = Trainer(
        max_epochs=1, strategy="ddp_fork", devices=2, callbacks=[SlowRankMonitor(every_n_batches=5, ratio=ratio)],
        use_distributed_sampler=True, **QUIET,
    )  # fmt: skip
    trainer.fit(Net(slow), DataLoader(Samples(slow), batch_size=1))
    lines = re.findall(
        r"Rank (\d) on \S+ keeps .*: ([\d.]+) ms a batch .*\(([\d.]+) ms of them", capfd.readouterr().out
    )
    assert [int(rank) for rank, *_ in lines] == ([1, 1] if slow else [])
    for _, whole, loading in lines:
        assert float(whole) >= 100
        assert (float(loading) >= 100) is (slow == "loader")


class Stops(LightningModule):
    """Ends its epoch in the middle of an accumulation window; after each batch the plan is made anew if asked to."""

    def __init__(self, marks_dirty=False):
        super().__init__()
        torch.manual_seed(1)
        self.marks_dirty = marks_dirty
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)])

    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 3 else None

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.marks_dirty:
            self.trainer.mark_dirty()

    def training_step(self, batch, batch_idx):
        return self.layers[1](self.layers[0](batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


@pytest.mark.ddp
@pytest.mark.parametrize(("kind", "marks_dirty"), [(DDP, False), (DDP, True), (FSDP, False)])
def test_an_epoch_that_a_hook_ends_in_the_middle_of_a_window_steps_by_all_ranks_gradients(kind, marks_dirty):
    def trained(batch_size, **where):
        module = Stops(marks_dirty)
        data = torch.arange(64.0).reshape(32, 2) / 32
        trainer = Trainer(accumulate_grad_batches=2, max_epochs=2, **QUIET, **where)
        trainer.fit(module, DataLoader(data, batch_size=batch_size))
        assert trainer.global_step == 4
        return torch.cat([value.flatten() for value in module.state_dict().values()])

    alone = trained(4)
    torch.testing.assert_close(trained(2, devices=2, strategy=kind(launcher="fork")), alone)


class Told(Net):
    def setup(self, stage):
        warnings.simplefilter("error" if self.trainer.global_rank else "ignore")

    def training_step(self, batch, batch_idx):
        self.log("same", 1.0, on_step=False, on_epoch=True)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", 0.0)


@pytest.mark.ddp
def test_what_all_ranks_find_is_said_once(tmp_path, capfd):
    where = {**QUIET, "enable_checkpointing": True, "strategy": "ddp_fork", "devices": 2, "limit_val_batches": 0}
    first, moved, lacking = (
        ModelCheckpoint(tmp_path / folder, monitor=monitor, filename="x")
        for folder, monitor in (("first", None), ("moved", None), ("other", "val_loss"))
    )
    stops, loader = EarlyStopping("same", patience=1, check_on_train_epoch_end=True), DataLoader(Samples(), 5)
    Trainer(max_epochs=3, callbacks=[first, stops], **where).fit(Told(), loader)
    more = Trainer(max_epochs=3, callbacks=[moved, lacking], **where)
    more.fit(Told(), loader, ckpt_path=tmp_path / "first" / "x.ckpt")
    out = capfd.readouterr().out
    assert out.count("Training ends after epoch 1: same did not get better") == 1
    assert "rank 1:" not in out


class FitsInside(Callback):
    """Fits in a hook of the fit around it, fails there, and goes on as if nothing had been."""

    def __init__(self, hook, strategy):
        self.strategy = strategy
        setattr(self, hook, self.fit)

    def fit(self, *_):
        inner = Trainer(strategy=self.strategy(launcher="fork"), devices=2, max_epochs=1, **QUIET)
        with pytest.raises(ArithmeticError):
            inner.fit(Net(hook=lambda _: 1 // 0), DataLoader(Samples(), 5))


@pytest.mark.ddp
@pytest.mark.parametrize("strategy", [DDP, FSDP])
@pytest.mark.parametrize("hook", ["on_train_epoch_start", "on_train_batch_start", "on_train_end"])
def test_a_run_goes_no_further_where_the_error_of_one_in_its_hook_was_swallowed(strategy, hook):
    inside = FitsInside(hook, strategy)
    trainer = Trainer(strategy=strategy(launcher="fork"), devices=2, max_epochs=1, callbacks=[inside], **QUIET)
    with pytest.raises(Exception, match=r".") as caught:
        trainer.fit(Net(), DataLoader(Samples(), 5))
    assert not isinstance(caught.value, AssertionError)
    told = "".join(traceback.format_exception_only(caught.value))
    assert "a run of this job failed before (ZeroDivisionError: integer division or modulo by zero)" in told
