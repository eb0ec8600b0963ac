"""A precision that scales the loss, and a strategy that holds steps back, see the same step in every plan."""

import pytest
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR

from lt_core import LightningModule, Precision, Strategy


class Scaled(Precision):
    """Scales by a power of two, so that the right order of things gives the same bits as no scaling."""

    name = "scaled"
    scales = True

    def __init__(self, overflows=()):
        self.overflows, self.steps = set(overflows), 0

    def scale_loss(self, loss):
        return loss * 1024

    def unscale(self, optimizer):
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p.grad is not None:
                p.grad.div_(1024)

    def step(self, optimizer, take_step):
        self.steps += 1
        return take_step() if self.steps - 1 not in self.overflows else False


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 3)
        self.norms = []

    def loss(self, batch):
        return nn.functional.cross_entropy(self.second(self.first(batch[0]).tanh()), batch[1])

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def on_before_optimizer_step(self, optimizer):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        self.norms.append(nn.utils.get_total_norm([p.grad for p in params]).item())

    def configure_optimizers(self):
        return Adam(self.parameters(), lr=1e-2)


class OwnStep(Net):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer.step(closure=optimizer_closure)


class Named(Net):
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        return {"first": loss, "second": loss * 2}

    def configure_optimizers(self):
        return {"first": SGD(self.first.parameters(), lr=0.1), "second": Adam(self.second.parameters(), lr=1e-2)}


class Manual(Net):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()


class ManualClosure(Manual):
    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()

        def closure():
            optimizer.zero_grad()
            loss = self.loss(batch)
            self.manual_backward(loss)
            return loss

        optimizer.step(closure)


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize(
    ("kind", "window"),
    [(Net, 1), (Net, 2), (OwnStep, 1), (OwnStep, 2), (Named, 1), (Named, 2), (Manual, 1), (ManualClosure, 1)],
)
def test_hooks_clipping_and_step_see_unscaled_gradients(kind, window, clip, trainer, loader, seeded, same):
    def fit(*plugins):
        module = seeded(kind)
        made = trainer(plugins=list(plugins), accumulate_grad_batches=window, gradient_clip_val=clip, max_epochs=2)
        made.fit(module, loader(shuffle=False))
        return module, made.global_step

    plain, steps = fit()
    scaled, scaled_steps = fit(Scaled())
    same(scaled, plain)
    assert scaled.norms == plain.norms
    assert scaled_steps == steps


class Scheduled(Net):
    def configure_optimizers(self):
        optimizer = Adam(self.parameters(), lr=1.0)
        return [optimizer], [{"scheduler": StepLR(optimizer, 1, 0.5), "interval": "step"}]


@pytest.mark.parametrize("window", [1, 2])
def test_a_step_that_overflow_skips_is_not_counted_and_steps_no_scheduler(window, trainer, loader):
    fit = trainer(plugins=Scaled(overflows=[0, 2]), accumulate_grad_batches=window, limit_train_batches=4 * window)
    fit.fit(Scheduled(), loader())
    assert fit.global_step == 2
    assert fit.optimizers[0].param_groups[0]["lr"] == 0.25


class Patient(Strategy):
    """Steps at every second call only."""

    calls = 0

    def optimizer_step(self, optimizer, closure=None):
        self.calls += 1
        return self.calls % 2 == 0 and super().optimizer_step(optimizer, closure)


def test_a_step_that_the_strategy_holds_back_is_not_counted(trainer, loader):
    fit = trainer(strategy=Patient(), limit_train_batches=8)
    fit.fit(Scheduled(), loader())
    assert fit.global_step == 4
    assert fit.optimizers[0].param_groups[0]["lr"] == 1 / 16


class Told(Strategy):
    """Notes the end of every batch."""

    def __init__(self):
        self.done = []

    def batch_done(self, phase):
        self.done.append(phase)


def test_the_strategy_is_told_of_every_batch_of_every_phase(trainer, loader):
    class Validated(Net):
        def validation_step(self, batch, batch_idx):
            pass

        def predict_step(self, batch, batch_idx):
            pass

    strategy = Told()
    run = trainer(strategy=strategy, num_sanity_val_steps=1)
    run.fit(Validated(), loader(8), loader(4))
    run.predict(Validated(), loader(4))
    assert strategy.done == ["validate", "train", "train", "validate", "predict"]
