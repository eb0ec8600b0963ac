"""Fits every case on the ranks that it is started with; rank 0 writes what came out. Also the cases themselves.

The cases are functions of the data alone, so that two ranks with batches of three must give what one process gives
with batches of six.
"""

import sys
import time
import warnings

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import cross_entropy
from torch.optim import LBFGS, SGD, Adam
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule, Logger
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
GLOBAL_BATCH = 6


def data(samples=21):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(samples, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 3, (samples,), generator=generator), torch.arange(samples))


class Net(LightningModule):
    """A classifier; logs means over the epoch."""

    def __init__(self, make=None):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
        self.make = make or (lambda module: Adam(module.parameters(), lr=1e-2))

    def loss(self, batch):
        return cross_entropy(self.layers(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=False, on_epoch=True)
        self.log("most", batch[0].max(), on_step=False, on_epoch=True, reduce_fx="max")
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch))
        self.log("count", len(batch[1]), reduce_fx="sum")

    def predict_step(self, batch, batch_idx):
        return batch[2]

    def configure_optimizers(self):
        return self.make(self)


class Scheduled(Net):
    def configure_optimizers(self):
        optimizer = SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [{"scheduler": StepLR(optimizer, 2, 0.5), "interval": "step"}]


class Weighted(Net):
    def training_step(self, batch, batch_idx):
        return {"loss": self.loss(batch), "loss_weight": len(batch[1])}


class WeightedSkips(Weighted):
    """The same, and rank 1 skips every second batch: then only rank 0's samples count."""

    def training_step(self, batch, batch_idx):
        if batch_idx % 2:
            if self.trainer.world_size == 1:
                return super().training_step([part[:3] for part in batch], batch_idx)
            if self.global_rank == 1:
                return None
        return super().training_step(batch, batch_idx)


class Masked(Net):
    """A mean over those samples that the data says count: more on one rank than on the other."""

    def training_step(self, batch, batch_idx):
        counts = batch[0][:, 0] > 0
        losses = cross_entropy(self.layers(batch[0]), batch[1], reduction="none")
        return {"loss": (losses * counts).sum() / counts.sum().clamp(min=1), "loss_weight": counts.sum()}


class OwnStep(Net):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + batch_idx)
        optimizer.step(closure=optimizer_closure)


class Shared(Net):
    """Two named optimizers on one loss."""

    def configure_optimizers(self):
        return {"body": SGD(self.layers[0].parameters(), lr=0.1), "head": Adam(self.layers[2].parameters(), lr=1e-2)}


class SkipsOnRankOne(Net):
    """Rank 1 returns None in every second batch; in one process the second half of the batch then counts as zero."""

    def training_step(self, batch, batch_idx):
        if batch_idx % 2:
            if self.trainer.world_size == 1:
                return self.loss([part[:3] for part in batch]) * 0.5
            if self.global_rank == 1:
                return None
        return self.loss(batch)


class GAN(LightningModule):
    """Generator and discriminator whose noise is a function of the data."""

    def __init__(self):
        super().__init__()
        self.gen = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))
        self.disc = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def fake(self, real):
        return self.gen(real[:, :4])

    def gen_loss(self, fake):
        scores = self.disc(fake)
        return bce(scores, torch.ones_like(scores))

    def disc_loss(self, real, fake):
        truth = torch.ones(len(real), 1)
        return bce(self.disc(real), truth) + bce(self.disc(fake.detach()), truth * 0)

    def configure_optimizers(self):
        return {"gen": Adam(self.gen.parameters(), lr=1e-2), "disc": Adam(self.disc.parameters(), lr=1e-2)}

    def training_step(self, batch, batch_idx):
        fake = self.fake(batch[0])
        return {"gen": self.gen_loss(fake), "disc": self.disc_loss(batch[0], fake)}


def short(kind, where="forward"):
    """Return the same where rank 1 of several has memory for one sample only."""

    class Short(kind):
        def training_step(self, batch, batch_idx):
            fails = self.global_rank == 1 and len(batch[1]) > 1
            if fails and where == "forward":
                raise torch.OutOfMemoryError("CUDA out of memory.")
            if fails:
                next(iter(self.parameters())).register_hook(self.fail)
            return super().training_step(batch, batch_idx)

        def fail(self, gradient):
            if self.trainer.training and self.global_rank == 1 and not hasattr(self, "failed"):
                self.failed = True
                raise torch.OutOfMemoryError("CUDA out of memory.")

    return Short


class ManualGAN(GAN):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        return list(super().configure_optimizers().values())

    def training_step(self, batch, batch_idx):
        gen, disc = self.optimizers()
        real = batch[0]
        with disc.toggle_model():
            disc.zero_grad()
            self.manual_backward(self.disc_loss(real, self.fake(real)), retain_graph=True)
            disc.step()
        with gen.toggle_model():
            gen.zero_grad()
            self.manual_backward(self.gen_loss(self.fake(real)))
            gen.step()


def lbfgs(module):
    return LBFGS(module.parameters(), lr=0.1, max_iter=3)


CASES = {
    "plain": (Net, {}),
    "scheduled": (Scheduled, {}),
    "clipped": (Net, {"gradient_clip_val": 0.1}),
    "accumulated": (Net, {"accumulate_grad_batches": 2}),
    "weighted": (Weighted, {"accumulate_grad_batches": 4}),
    "weighted, every batch": (Weighted, {}),
    "weighted by the data": (Masked, {}),
    "weighted by the data, accumulated": (Masked, {"accumulate_grad_batches": 2}),
    "weighted, skips": (WeightedSkips, {"samples": 24}),
    "weighted, skips, accumulated": (WeightedSkips, {"samples": 24, "accumulate_grad_batches": 2}),
    "skips, accumulated": (SkipsOnRankOne, {"samples": 24, "accumulate_grad_batches": 2}),
    "own optimizer_step": (OwnStep, {}),
    "own optimizer_step, accumulated": (OwnStep, {"accumulate_grad_batches": 2}),
    "LBFGS": (lambda: Net(lbfgs), {}),
    "one loss for two optimizers": (Shared, {}),
    "one loss for two optimizers, accumulated": (Shared, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.1}),
    "skips": (SkipsOnRankOne, {"samples": 24}),
    "GAN": (GAN, {}),
    "GAN, accumulated": (GAN, {"accumulate_grad_batches": 2}),
    "manual GAN": (ManualGAN, {}),
    "manual GAN, clipped": (ManualGAN, {"gradient_clip_val": 0.05}),
    "memory short on one rank": (short(Net), {"accumulate_grad_batches": "auto", "gradient_clip_val": 0.1}),
    "memory short in backward": (short(Net, "backward"), {"accumulate_grad_batches": "auto"}),
    "memory short, weighted": (short(Masked), {"accumulate_grad_batches": "auto"}),
    "memory short, own optimizer_step": (short(OwnStep), {"accumulate_grad_batches": "auto"}),
    "memory short, GAN": (short(GAN), {"accumulate_grad_batches": "auto"}),
    "memory short, skips": (short(SkipsOnRankOne), {"samples": 24, "accumulate_grad_batches": "auto"}),
    "two fits": (Scheduled, {"stops": [3, 6]}),
}


ON_THREE = ["plain", "accumulated", "weighted", "weighted, every batch", "GAN", "manual GAN"]
"""Cases that three ranks run too, with batches of two."""


def run(name, ranks):
    """Fit a case; return weights, metrics, steps and, for plain nets, what validation and prediction gave."""
    kind, settings = CASES[name]
    settings = dict(settings)
    samples, stops = settings.pop("samples", 21), settings.pop("stops", [])
    torch.manual_seed(0)
    module = kind()
    trainer = Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", max_epochs=2, **QUIET, **settings
    )
    loader = DataLoader(data(samples), batch_size=GLOBAL_BATCH // ranks)
    for stop in [*stops, -1]:
        trainer.max_steps = stop
        trainer.fit(module, loader)
    found = {
        "weights": {name: value.clone() for name, value in module.state_dict().items()},
        "metrics": {name: value.item() for name, value in trainer.callback_metrics.items()},
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
    }
    if name == "plain":
        found["validation"] = trainer.validate(module, loader, verbose=False)
        found["order"] = torch.cat(trainer.predict(module, loader)).tolist()
    return found


class Rows(Logger):
    """Notes the steps at which it got values of steps."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def log_metrics(self, metrics, step=None):
        self.steps += [step] * ("speed" in metrics)


class Slow(Net):
    """Ranks of different speed; notes how many steps and validations each rank had."""

    def __init__(self):
        super().__init__()
        self.validations = 0

    def training_step(self, batch, batch_idx):
        time.sleep(0.002 + 0.003 * self.global_rank)
        self.log("speed", float(self.global_rank), on_step=True, sync_dist=True)
        return super().training_step(batch, batch_idx)

    def on_validation_end(self):
        self.validations += 1

    def on_train_end(self):
        self.counts = self.trainer.strategy.gather_objects([self.global_step, self.validations])


def run_by_time(ranks):
    """Fit with a limit of time, validate and log by time; return each rank's steps and validations, and the rows."""
    module, loader, logger = Slow(), DataLoader(data(24), batch_size=3), Rows()
    trainer = Trainer(
        accelerator="cpu",
        devices=ranks,
        strategy="ddp",
        max_time={"seconds": 0.5},
        val_check_interval={"milliseconds": 50},
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        log_every_n_steps="20 ms",
        **{**QUIET, "logger": logger},
    )
    trainer.fit(module, loader, loader)
    return module.counts, logger.steps


if __name__ == "__main__":
    warnings.simplefilter("error")
    world_size = int(sys.argv[2])
    results = {name: run(name, world_size) for name in (ON_THREE if world_size == 3 else CASES)}
    results["time"] = run_by_time(world_size)
    if torch.distributed.get_rank() == 0:
        torch.save(results, sys.argv[1])
