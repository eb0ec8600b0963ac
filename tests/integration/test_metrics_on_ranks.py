"""Metric objects on ranks that have no sample left: the batch that stands in, so that no rank waits, counts nowhere."""

import warnings

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from lt_core import Callback, LightningModule
from lt_loops import Trainer
from lt_parallel import FSDP
from lt_strategies import DDP

pytestmark = pytest.mark.ddp
torchmetrics = pytest.importorskip("torchmetrics")
pytest.importorskip("lt_data")
QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class FiveAndOne(IterableDataset):
    """Gives rank 0 five samples of six, and rank 1 the last one."""

    shards_itself = True

    def __iter__(self):
        yield from torch.arange(6.0).unsqueeze(1).tensor_split([5])[torch.distributed.get_rank()]


class Counter:
    """A metric that is no module."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.samples = []

    def update(self, values):
        self.samples.append(values)

    def compute(self):
        return float(sum(map(len, self.samples)))


class Kinds(torch.nn.Module):
    """Counts samples by metrics of many kinds."""

    def __init__(self):
        super().__init__()
        kinds = torchmetrics.classification
        self.logged = torchmetrics.SumMetric()
        self.group = torchmetrics.MetricCollection([kinds.BinaryPrecision(), kinds.BinaryRecall()])
        self.wrapped = torchmetrics.wrappers.ClasswiseWrapper(kinds.MulticlassStatScores(2, average=None))
        self.gathered = torchmetrics.CatMetric()
        self.listed = [Counter()]

    def update(self, batch):
        large, even = (batch[:, 0] > 2).int(), (batch[:, 0] % 2 == 0).int()
        self.logged.update(float(len(batch)))
        self.group.update(large, even)
        self.wrapped.update(large, even)
        self.gathered(batch[:, 0])
        self.listed[0].update(batch)

    def check(self):
        """Check what all ranks have counted: each of six samples once."""
        assert [float(value) for value in self.group.compute().values()] == [pytest.approx(1 / 3)] * 2
        assert [int(value[:4].sum()) for value in self.wrapped.compute().values()] == [6, 6]
        assert sorted(self.gathered.compute().tolist()) == [0, 1, 2, 3, 4, 5]
        assert total(self.listed[0].compute()) == 6


def total(value):
    tensor = torch.tensor(float(value))
    torch.distributed.all_reduce(tensor)
    return tensor.item()


class Counts(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 4)
        self.train_kinds, self.val_kinds, self.test_kinds = Kinds(), Kinds(), Kinds()

    def training_step(self, batch, batch_idx):
        self.train_kinds.update(batch)
        self.log("train_count", self.train_kinds.logged, on_step=False, on_epoch=True)
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.layer(batch)
        self.val_kinds.update(batch)
        self.log("val_count", self.val_kinds.logged)

    def test_step(self, batch, batch_idx):
        self.layer(batch)
        self.test_kinds.update(batch)
        self.log("test_count", self.test_kinds.logged)

    def on_train_epoch_end(self):
        self.train_kinds.check()

    def on_validation_epoch_end(self):
        self.val_kinds.check()

    def on_test_epoch_end(self):
        self.test_kinds.check()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Normed(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))

    def training_step(self, batch, batch_idx):
        return self.layers(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.layers(batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_ranks_validate_with_the_statistics_of_batch_norm_that_a_checkpoint_holds():
    loader, model = DataLoader(torch.arange(32.0).view(16, 2) / 8, batch_size=2), Normed()
    trainer = Trainer(accelerator="cpu", devices=2, strategy=DDP(launcher="fork"), max_epochs=1, **QUIET)
    trainer.fit(model, loader, loader)
    [alone] = Trainer(accelerator="cpu", **QUIET).validate(model, loader, verbose=False)
    assert alone["val_loss"] == pytest.approx(trainer.callback_metrics["val_loss"].item(), abs=1e-6)


class Beside(Callback):
    """Counts in hooks of its own."""

    def __init__(self):
        self.trained, self.validated = torchmetrics.SumMetric(), torchmetrics.SumMetric()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.trained.update(len(batch))

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.validated.update(len(batch))

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.validated.update(len(batch))

    def on_train_epoch_end(self, trainer, pl_module):
        assert self.trained.compute() == 6
        assert self.validated.compute() == 12


@pytest.mark.parametrize(("kind", "trains_on"), [(FSDP, torch.arange(6.0).unsqueeze(1)), (DDP, FiveAndOne())])
def test_a_batch_that_stands_in_for_no_sample_is_no_part_of_a_metric(kind, trains_on):
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy=kind(launcher="fork"),
        max_epochs=1,
        num_sanity_val_steps=0,
        callbacks=[Beside()],
        **QUIET,
    )
    model, six = Counts(), DataLoader(torch.arange(6.0).unsqueeze(1), batch_size=2)
    trainer.fit(model, DataLoader(trains_on, batch_size=2), six)
    assert trainer.callback_metrics == {"train_count": 6, "val_count": 6}
    assert trainer.test(model, six, verbose=False) == [{"test_count": 6}]


class Adds(Counter):
    """Adds up its sums over ranks by itself."""

    def compute(self):
        return total(super().compute())


class Alike(Counter):
    """Has the same value on all ranks."""

    def compute(self):
        return 3.0


class LogsOwn(Counts):
    """Logs metrics that are not torchmetrics', of ranks with five samples and one."""

    def __init__(self):
        super().__init__()
        self.own = {name: Counter() for name in ("alone", "meant", "of_rank_0")} | {"added": Adds(), "alike": Alike()}
        self.theirs = torchmetrics.SumMetric()

    def validation_step(self, batch, batch_idx):
        for name, metric in self.own.items():
            metric.update(batch)
            sync = False if name == "meant" else None
            self.log(name, metric, sync_dist=sync, rank_zero_only=name == "of_rank_0")
        self.theirs.update(float(len(batch)))
        self.log("theirs", self.theirs)

    def on_validation_epoch_end(self):
        pass


class Told(Callback):
    """Checks on rank 0, whose process it is, what was warned of."""

    def __init__(self, caught):
        self.caught = caught

    def on_validation_end(self, trainer, pl_module):
        told = [str(one.message) for one in self.caught if "LT564" in str(one.message)]
        assert len(told) == trainer.is_global_zero, told
        assert all(text.startswith("self.log('alone'): the metric's compute() gives other values") for text in told)
        assert all("(['5.0', '1.0'])" in text for text in told)


def test_a_metric_that_does_not_add_up_its_sums_over_ranks_is_told():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = Trainer(
            accelerator="cpu", devices=2, strategy=DDP(launcher="fork"), callbacks=[Told(caught)], **QUIET
        )
        trainer.validate(LogsOwn(), DataLoader(FiveAndOne(), batch_size=2), verbose=False)
    assert trainer.callback_metrics == {"alone": 5, "meant": 5, "of_rank_0": 5, "added": 6, "alike": 3, "theirs": 6}
