"""Metric objects that are logged: reset when the values of their epoch are closed, and not touched otherwise."""

import signal

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import Callback, LightningModule

torchmetrics = pytest.importorskip("torchmetrics")

MEAN = 4.5
"""The mean of the ten samples."""


def numbers(count=10, start=0):
    return DataLoader([torch.tensor([float(i)]) for i in range(start, start + count)], batch_size=4)


class Measured(LightningModule):
    """Logs the mean of what it trains and evaluates on, by one object for each; notes what its own ``compute`` says."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.trained, self.evaluated, self.own = (torchmetrics.MeanMetric() for _ in range(3))
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.trained.update(batch)
        self.log("trained", self.trained, on_step=False, on_epoch=True)
        return self.layer(batch).sum() * 0.0

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.evaluated.update(batch)
        self.own.update(batch)
        self.log("evaluated", self.evaluated)

    test_step = validation_step

    def on_train_epoch_end(self):
        self.seen.append(("train", self.trained.compute().item()))

    def on_validation_epoch_end(self):
        self.seen.append(("validate", self.evaluated.compute().item()))

    on_test_epoch_end = on_validation_epoch_end

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def is_reset(metric):
    return metric.update_count == 0 and metric.weight == 0


@pytest.mark.parametrize("sanity", [0, 2])
def test_one_object_gives_each_run_its_own_mean(sanity, trainer):
    module, run = Measured(), trainer(num_sanity_val_steps=sanity)
    run.fit(module, numbers(), numbers(4))
    found = [
        run.validate(module, numbers(4, start=4)),
        run.validate(module, numbers(4, start=8)),
        run.test(module, numbers(4, start=12)),
    ]
    assert [values["evaluated"] for [values] in found] == [5.5, 9.5, 13.5]


def test_after_a_run_the_logged_objects_are_reset_and_others_are_not_touched(trainer):
    module, run = Measured(), trainer(num_sanity_val_steps=0, max_epochs=2)
    run.fit(module, numbers(), numbers())
    assert is_reset(module.trained)
    assert is_reset(module.evaluated)
    assert module.own.update_count == 2 * 3
    run.validate(module, numbers())
    assert is_reset(module.evaluated)
    assert module.own.update_count == 3 * 3
    assert run.callback_metrics["evaluated"] == MEAN


def test_the_hooks_of_an_epochs_end_still_see_its_sums(trainer):
    ends = []

    class Ends(Callback):
        def on_validation_end(self, trainer, pl_module):
            ends.append(pl_module.evaluated.compute().item())

    module = Measured()
    run = trainer(num_sanity_val_steps=0, max_epochs=2, callbacks=Ends())
    run.fit(module, numbers(), numbers(4))
    run.test(module, numbers(4, start=4))
    assert module.seen == [("validate", 1.5), ("train", MEAN)] * 2 + [("validate", 5.5)]
    assert ends == [1.5] * 2


def test_what_was_summed_in_inference_mode_can_be_added_to_in_training(trainer):
    class Shares(Measured):
        def training_step(self, batch, batch_idx):
            getattr(self.evaluated, next(iter(self.evaluated._defaults))).add_(0.0)
            return super().training_step(batch, batch_idx)

    module, run = Shares(), trainer()
    run.validate(module, numbers())
    run.fit(module, numbers())
    assert run.callback_metrics["trained"] == MEAN


@pytest.mark.parametrize("reads", [False, True])
def test_members_of_a_collection_begin_anew_also_where_one_alone_is_logged(reads, trainer):
    kinds = torchmetrics.classification

    class Collected(Measured):
        def __init__(self):
            super().__init__()
            self.many = torchmetrics.MetricCollection([kinds.BinaryPrecision(), kinds.BinaryRecall()])

        def validation_step(self, batch, batch_idx):
            self.many.update((batch > 5).float(), (batch > 3).long())
            self.log("recall", self.many["BinaryRecall"])
            if self.trainer.validating:
                self.log_dict({f"all_{name}": metric for name, metric in self.many.items()})

        def on_validation_epoch_end(self):
            if reads:
                self.many.compute()

    module, run = Collected(), trainer(num_sanity_val_steps=0, max_epochs=2)
    run.fit(module, numbers(), numbers())
    assert run.callback_metrics["recall"] == pytest.approx(4 / 6)
    [values] = run.validate(module, numbers(4))
    assert values == {"recall": 0.0, "all_BinaryRecall": 0.0, "all_BinaryPrecision": 0.0}
    [values] = run.validate(module, numbers(3, start=6))
    assert values == {"recall": 1.0, "all_BinaryRecall": 1.0, "all_BinaryPrecision": 1.0}


@pytest.mark.parametrize(
    "collect",
    [
        lambda mean, top: torchmetrics.MetricCollection({"a": mean, "b_top": top}),
        lambda mean, top: torchmetrics.wrappers.MultitaskWrapper(
            {"a": mean, "b": torchmetrics.MetricCollection({"top": top})}
        ),
        lambda mean, top: nn.ModuleDict({"a": mean, "b_top": top}),
    ],
)
def test_log_dict_takes_each_kind_of_collection(collect, trainer):
    class Collected(Measured):
        def __init__(self):
            super().__init__()
            self.many = collect(torchmetrics.MeanMetric(), torchmetrics.MaxMetric())

        def validation_step(self, batch, batch_idx):
            members = {name: metric for name, metric in self.many.items() if name in ("a", "b_top")}
            for metric in members.values():
                metric.update(batch)
            self.log_dict(self.many)

        def on_validation_epoch_end(self):
            pass

    [values] = trainer().validate(Collected(), numbers())
    assert values == {"a": MEAN, "b_top": 9.0}


def test_objects_of_two_loaders_are_all_reset(trainer):
    class Two(Measured):
        def __init__(self):
            super().__init__()
            self.each = nn.ModuleList([torchmetrics.MeanMetric(), torchmetrics.MeanMetric()])

        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.each[dataloader_idx].update(batch)
            self.log("mean", self.each[dataloader_idx])

        def on_validation_epoch_end(self):
            pass

    module, run = Two(), trainer()
    for start in (0, 10):
        [first, second] = run.validate(module, [numbers(start=start), numbers(4, start=start)])
        assert first["mean/dataloader_idx_0"] == MEAN + start
        assert second["mean/dataloader_idx_1"] == 1.5 + start
    assert all(is_reset(metric) for metric in module.each)


def test_an_epoch_that_a_limit_cuts_leaves_no_sums_and_a_fit_that_continues_has_them(trainer, tmp_path):
    module, run = Measured(), trainer(max_steps=2)
    run.fit(module, numbers())
    assert run.callback_metrics["trained"] == 3.5
    assert is_reset(module.trained)
    run.save_checkpoint(tmp_path / "cut.ckpt")
    assert is_reset(module.trained)
    run.max_steps = -1
    run.fit(module, numbers())
    assert run.callback_metrics["trained"] == MEAN
    assert is_reset(module.trained)
    resumed = trainer()
    resumed.fit(Measured(), numbers(), ckpt_path=tmp_path / "cut.ckpt")
    assert resumed.callback_metrics["trained"] == MEAN


@pytest.mark.parametrize("hook", ["on_train_batch_start", "on_validation_batch_start"])
def test_an_error_leaves_no_sums_to_the_next_run(hook, trainer):
    def fails(self, trainer, pl_module, batch, batch_idx, *loader):
        if batch_idx == 1:
            raise KeyboardInterrupt

    module = Measured()
    with pytest.raises(KeyboardInterrupt):
        trainer(callbacks=type("Fails", (Callback,), {hook: fails})(), num_sanity_val_steps=0).fit(
            module, numbers(), numbers()
        )
    run = trainer(num_sanity_val_steps=0)
    run.fit(module, numbers(), numbers())
    assert run.callback_metrics["trained"] == run.callback_metrics["evaluated"] == MEAN


def test_a_trial_leaves_no_sums(trainer):
    class LogsLater(Measured):
        def training_step(self, batch, batch_idx):
            self.trained.update(batch)
            return self.layer(batch).sum() * 0.0

        def on_train_epoch_end(self):
            self.log("trained", self.trained)

    class Tries(Callback):
        def on_fit_start(self, trainer, pl_module):
            trainer.trial(2)

    for module in (Measured(), LogsLater()):
        run = trainer(callbacks=Tries())
        run.fit(module, numbers())
        assert run.callback_metrics["trained"] == MEAN


def test_a_signal_in_a_validation_leaves_no_sums_here_and_none_in_the_file(trainer, tmp_path):
    class Stops(Callback):
        def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            if batch_idx == 1:
                signal.raise_signal(signal.SIGTERM)

        def on_interrupt(self, trainer, pl_module):
            trainer.request_save(tmp_path / "cut.ckpt")

    module, run = Measured(), trainer(num_sanity_val_steps=0, callbacks=Stops(), on_signal="return")
    run.fit(module, numbers(), numbers())
    assert run.interrupted
    assert is_reset(module.trained)
    assert is_reset(module.evaluated)
    resumed = trainer()
    resumed.fit(Measured(), numbers(), numbers(), ckpt_path=tmp_path / "cut.ckpt")
    assert resumed.callback_metrics["trained"] == resumed.callback_metrics["evaluated"] == MEAN


class OfBatches(Measured):
    """Logs what its metric says of each batch, which has the graph of the forward."""

    def __init__(self):
        super().__init__()
        self.error, self.held = torchmetrics.MeanSquaredError(), []

    def training_step(self, batch, batch_idx):
        out = self.layer(batch)
        self.error(out, batch)
        self.log("error", self.error, on_step=True, on_epoch=True)
        return out.square().mean()

    def on_train_epoch_end(self):
        pass

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.held += [value.requires_grad for value in self.trainer.callback_metrics.values()]


@pytest.mark.filterwarnings("error:Converting a tensor with requires_grad")
def test_the_value_of_a_batch_that_a_metric_gives_holds_no_graph(trainer):
    module, runs = OfBatches(), trainer(max_epochs=1)
    runs.fit(module, numbers())
    assert module.held
    assert not any(module.held)
    assert not any(value.requires_grad for value in (*runs.callback_metrics.values(), *runs.logged_metrics.values()))
