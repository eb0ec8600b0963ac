"""Logs in every way on the ranks that it is started with; each rank writes what it saw. Also what one process gives."""

import sys
import warnings
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError, MeanSquaredError, MetricCollection, R2Score

from lt_callbacks import ProgressBar
from lt_core import Callback, LightningModule
from lt_core.logger import Logger
from lt_loops import Trainer
from lt_strategies import DDP

QUIET = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
SAMPLES, VALIDATED, BATCH = 23, 9, 4


def data(samples=SAMPLES):
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(samples, 5, generator=generator, dtype=torch.float64))


class Rows(Logger):
    """Keeps what it is given."""

    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append({"at": step, **{name: float(value) for name, value in metrics.items()}})


class Logs(LightningModule):
    """Logs values that do not depend on how the samples are put into batches, whatever the ranks."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
        self.alone = MeanSquaredError()
        self.together = MetricCollection({"mae": MeanAbsoluteError(), "r2": R2Score()}, prefix="metric_")
        self.val_alone, self.val_together = self.alone.clone(), self.together.clone(prefix="val_metric_")
        for metric in (self.alone, self.together, self.val_alone, self.val_together):
            metric.set_dtype(torch.float64)

    def write(self, rows, stage, alone, together):
        settings = {"on_step": False, "on_epoch": True}
        values = rows[:, 0]
        self.log(f"{stage}mean", values.mean(), **settings)
        self.log(f"{stage}python", values.mean().item(), **settings)
        self.log(f"{stage}synced", values.mean(), sync_dist=True, **settings)
        self.log(f"{stage}sum", values.sum(), reduce_fx="sum", **settings)
        self.log(f"{stage}count", len(values), reduce_fx="sum", **settings)
        self.log(f"{stage}min", values.min(), reduce_fx="min", **settings)
        self.log(f"{stage}max", values.max(), reduce_fx=torch.max, **settings)
        self.log(f"{stage}weighted", rows[:, 1].sum().item(), batch_size=1, reduce_fx="sum", **settings)
        alone.update(rows[:, 0], rows[:, 1])
        self.log(f"{stage}metric", alone, **settings)
        together.update(rows[:, 0], rows[:, 1])
        self.log_dict(together, **settings)

    def training_step(self, batch, batch_idx):
        self.write(batch[0], "", self.alone, self.together)
        self.log("rank", float(self.global_rank), sync_dist=True)
        self.log("mine", float(self.global_rank))
        self.log("forked", batch[0][:, 0].mean(), sync_dist=True, on_step=True, on_epoch=True)
        return (batch[0] @ self.weight).sum() * 0.0

    def validation_step(self, batch, batch_idx):
        self.write(batch[0], "val_", self.val_alone, self.val_together)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)

    def train_dataloader(self):
        return DataLoader(data(), batch_size=BATCH)

    def val_dataloader(self):
        return DataLoader(data(VALIDATED), batch_size=BATCH)


class Exchanges(Callback):
    """Counts what ranks send to each other from the beginning of training on."""

    def __init__(self, strategy):
        self.strategy, self.count = strategy, 0
        if strategy != "auto":  # before the run, whose parts hold the method
            self.gather, strategy.gather_objects = strategy.gather_objects, self.counted

    def counted(self, value):
        self.count += 1
        return self.gather(value)

    def on_train_start(self, trainer, pl_module):
        self.count = 0


class SeesBatches(ProgressBar):
    """Looks at what was logged, after each batch, as a bar of one's own does."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.append(trainer.callback_metrics["rank"].item())


class OneKeyMissing(Logs):
    def training_step(self, batch, batch_idx):
        if self.global_rank == 0:
            self.log("only_zero", 1.0, on_epoch=True, sync_dist=True)
        return super().training_step(batch, batch_idx)


def run(ranks):
    """Fit once, and validate once more; return what callbacks and loggers saw on this rank, and its number."""
    strategy = DDP() if ranks > 1 else "auto"
    rows, exchanges = Rows(), Exchanges(strategy)
    trainer = Trainer(
        accelerator="cpu",
        devices=ranks,
        strategy=strategy,
        max_epochs=1,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        logger=rows,
        callbacks=[exchanges],
        **QUIET,
    )
    module = Logs()
    trainer.fit(module)
    metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
    seen = {"metrics": metrics, "rows": list(rows.rows), "exchanges": exchanges.count}
    [again] = trainer.validate(module, verbose=False)
    return {
        **seen,
        "again": again,
        "between_rows": between_rows(ranks),
        "steps": after_each_batch(ranks),
        "steps_on_rank_0": seen_on_rank_0(ranks),
    }, trainer.global_rank


def between_rows(ranks):
    """Return the step values that callbacks find at the end of an epoch in which no row was due."""
    trainer = Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_epochs=1, logger=Rows(), **QUIET
    )
    trainer.fit(Logs())
    return {name: trainer.callback_metrics[name].item() for name in ("rank", "mine")}


class Steps(LightningModule):
    """Logs step values that differ by rank and step; one of the ranks has no sample left in the last step."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
        self.own, self.seen = [], []

    def training_step(self, batch, batch_idx):
        number = 10.0 * batch_idx + self.global_rank
        for name in ("min", "max", "sum"):
            self.log(name, number, sync_dist=True, reduce_fx=name)
        if batch_idx % 2 and self.global_rank == 1:  # in another order than on the other ranks
            self.log("zeta", torch.tensor(number), sync_dist=True)
        self.log("mean", torch.tensor(number), sync_dist=True, prog_bar=True)
        self.log("forked", number, sync_dist=True, on_epoch=True)
        if batch_idx % 2 and self.global_rank != 1:
            self.log("zeta", torch.tensor(number), sync_dist=True)
        self.log("mine", number)
        return (batch[0] @ self.weight).sum() * 0.0

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.seen.append({name: value.item() for name, value in self.trainer.callback_metrics.items()})

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)

    def train_dataloader(self):
        return DataLoader(data(3 * self.trainer.world_size * 2 + 1), batch_size=2)


def after_each_batch(ranks):
    """Return what a hook after each batch finds where no row is due."""
    module = Steps()
    Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_epochs=2, logger=False, **QUIET
    ).fit(module)
    return module.seen


def seen_on_rank_0(ranks):
    """Return what a callback finds after each batch that rank 0 alone has."""
    trainer = Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_epochs=1, logger=False, **QUIET
    )
    sees = SeesBatches()
    if trainer.global_rank == 0:
        trainer.callbacks.append(sees)
    trainer.fit(Logs())
    return sees.seen


def mistake(ranks):
    """Return the error of a key that one rank does not log."""
    trainer = Trainer(accelerator="cpu", devices=ranks, strategy="ddp", max_epochs=1, logger=Rows(), **QUIET)
    try:
        trainer.fit(OneKeyMissing())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    warnings.simplefilter("error")
    folder, world_size = Path(sys.argv[1]), int(sys.argv[2])
    seen, rank = run(world_size)
    torch.save({**seen, "mistake": mistake(world_size)}, folder / f"rank{rank}.pt")
