"""Automatic optimization of one optimizer equals the loop that one writes by hand, bit for bit."""

import warnings
from itertools import accumulate, islice

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, Adam, AdamW
from torch.optim.lr_scheduler import ExponentialLR, OneCycleLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, default_collate

from lt_core.dialect import Policy
from lt_loops import Trainer

OPTIMIZERS = {
    "SGD": lambda module: SGD(module.parameters(), lr=0.1),
    "momentum": lambda module: SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda module: Adam(module.parameters(), lr=1e-2),
    "AdamW": lambda module: AdamW(module.parameters(), lr=1e-2),
}


def by_hand(module, batches, epochs=4, window=1, optimizer=None, each_step=None, each_epoch=None, clip=None):
    """The loop that a user writes, with accumulation as everybody writes it: a partial window divides by its count."""
    optimizer = optimizer or module.configure_optimizers()
    module.train()
    for _ in range(epochs):
        waiting = []
        for batch in batches:
            waiting.append(batch)
            if len(waiting) == window:
                run_window(module, optimizer, waiting, clip, each_step)
                waiting = []
        if waiting:
            run_window(module, optimizer, waiting, clip, each_step)
        if each_epoch is not None:
            each_epoch()
    return module


def run_window(module, optimizer, batches, clip, each_step):
    optimizer.zero_grad()
    for batch in batches:
        (module.loss(batch) / len(batches)).backward()
    if clip is not None:
        clip(module.parameters())
    optimizer.step()
    if each_step is not None:
        each_step()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_100_steps_equal_the_hand_written_loop(name, workers, trainer, net, loader, seeded, same, feed):
    if workers and name != "Adam":
        pytest.skip("workers are the loader's affair: one optimizer is enough")
    theirs = by_hand(seeded(net, OPTIMIZERS[name]), loader(num_workers=workers))
    after = torch.get_rng_state()
    mine = seeded(net, OPTIMIZERS[name])
    fit = trainer(max_epochs=4)
    fit.fit(mine, loader(num_workers=workers))
    assert fit.global_step == 100
    same(mine, theirs)
    assert torch.equal(torch.get_rng_state(), after)


def test_a_loader_with_a_generator_of_its_own_draws_the_same_order(trainer, net, loader, seeded, same, feed):
    def own():
        return loader(generator=torch.Generator().manual_seed(5), num_workers=0)

    theirs = by_hand(seeded(net), own())
    mine = seeded(net)
    trainer(max_epochs=4).fit(mine, own())
    same(mine, theirs)


class DrawsAtItsEnd:
    """A loader that draws once more when it is asked for a batch beyond its last."""

    def __init__(self, generator):
        self.generator = generator

    def __iter__(self):
        for index in torch.randperm(6, generator=self.generator):
            yield torch.full((2, 8), float(index))
        torch.randperm(6, generator=self.generator)

    def __len__(self):
        return 6


class DrawsAtItsEndOfBatches(DrawsAtItsEnd):
    def __iter__(self):
        return ([int(batch[0, 0]), 6] for batch in super().__iter__())


ROWS = torch.arange(7.0).repeat(8, 1).T.contiguous()
ASKED_AT_THE_END = {
    "shuffle": lambda own, workers: DataLoader(ROWS, 2, shuffle=True, generator=own, num_workers=workers),
    "sampler": lambda own, workers: DataLoader(
        ROWS, 2, sampler=RandomSampler(ROWS, generator=own), num_workers=workers, drop_last=True
    ),
    "batch sampler": lambda own, workers: DataLoader(
        ROWS, batch_sampler=DrawsAtItsEndOfBatches(own), num_workers=workers
    ),
    "iterable": lambda own, workers: DrawsAtItsEnd(own),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("kind", ASKED_AT_THE_END)
@pytest.mark.parametrize("lightning", [False, True])
def test_a_loader_is_asked_for_a_batch_beyond_its_last_as_by_hand_and_in_lightning_is_not(
    lightning, kind, limit, workers, trainer, net, feed, monkeypatch
):
    def own():
        return ASKED_AT_THE_END[kind](torch.Generator().manual_seed(5), workers)

    class Sees(net):
        def training_step(self, batch, batch_idx):
            seen.append(batch[:, 0].tolist())
            return self.layers(batch).sum()

    seen, by_hand, batches = [], [], own()
    for _ in range(3):
        most = limit or (len(batches) if lightning else None)
        by_hand += [batch[:, 0].tolist() for batch in islice(batches, most)]
    monkeypatch.setattr(Trainer, "policy", Policy(stops_at_length=lightning))
    trainer(max_epochs=3, limit_train_batches=limit or 1.0).fit(Sees(), own())
    assert seen == by_hand


class Reordered:
    """A batch sampler that draws each epoch's order from the epoch's number."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.randperm(25, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        return iter([[index, index + 25] for index in order])

    def __len__(self):
        return 25


def test_a_batch_sampler_that_goes_by_the_epoch_is_told_of_it(trainer, net, loader, seeded, same):
    batches, theirs = DataLoader(loader().dataset, batch_sampler=Reordered()), seeded(net)
    optimizer = theirs.configure_optimizers()
    for epoch in range(3):
        batches.batch_sampler.set_epoch(epoch)
        by_hand(theirs, batches, epochs=1, optimizer=optimizer)
    mine = seeded(net)
    trainer(max_epochs=3).fit(mine, DataLoader(loader().dataset, batch_sampler=Reordered()))
    same(mine, theirs)


# ---- schedulers ------------------------------------------------------------------------------------------------------


def test_a_scheduler_that_goes_by_epochs_steps_once_an_epoch(trainer, net, loader, seeded, same):
    theirs = seeded(net, OPTIMIZERS["momentum"])
    optimizer = theirs.configure_optimizers()
    scheduler = StepLR(optimizer, 2, 0.5)
    by_hand(theirs, loader(), 5, optimizer=optimizer, each_epoch=scheduler.step)

    def make(module):
        optimizer = OPTIMIZERS["momentum"](module)
        return [optimizer], [StepLR(optimizer, 2, 0.5)]

    mine = seeded(net, make)
    fit = trainer(max_epochs=5)
    fit.fit(mine, loader())
    same(mine, theirs)
    assert fit.lr_scheduler_configs[0].scheduler.get_last_lr() == scheduler.get_last_lr()


def test_as_in_lightning_a_second_fit_makes_its_optimizers_anew(trainer, net, loader, seeded, same, monkeypatch):
    def make(module):
        optimizer = OPTIMIZERS["Adam"](module)
        return [optimizer], [ExponentialLR(optimizer, 0.5)]

    theirs = seeded(net)
    for epochs in (1, 2):
        (optimizer,), (scheduler,) = make(theirs)
        by_hand(theirs, loader(), epochs, optimizer=optimizer, each_epoch=scheduler.step)
    monkeypatch.setattr(Trainer, "policy", Policy(new_optimizers=True))
    mine, fit = seeded(net, make), trainer(max_epochs=1)
    fit.fit(mine, loader())
    fit.max_epochs = 3
    fit.fit(mine, loader())
    same(mine, theirs)
    assert (fit.current_epoch, fit.lr_scheduler_configs[0].scheduler.get_last_lr()) == (3, scheduler.get_last_lr())


@pytest.mark.parametrize(("window", "frequency"), [(1, 1), (1, 3), (2, 1)])
def test_a_scheduler_that_goes_by_steps_counts_optimizer_steps(window, frequency, trainer, net, loader, seeded, same):
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    scheduler = ExponentialLR(optimizer, 0.98)
    steps = 0

    def each_step():
        nonlocal steps
        steps += 1
        if steps % frequency == 0:
            scheduler.step()

    by_hand(theirs, loader(), 4, window, optimizer, each_step)

    def make(module):
        optimizer = OPTIMIZERS["SGD"](module)
        config = {"scheduler": ExponentialLR(optimizer, 0.98), "interval": "step", "frequency": frequency}
        return {"optimizer": optimizer, "lr_scheduler": config}

    mine = seeded(net, make)
    trainer(max_epochs=4, accumulate_grad_batches=window).fit(mine, loader())
    same(mine, theirs)


@pytest.mark.parametrize("closure", [False, True])
def test_as_in_lightning_each_loss_is_divided_by_the_size_of_a_full_window(closure, trainer, net, monkeypatch):
    steps = []

    class Watched(net):
        def training_step(self, batch, batch_idx):
            return None if batch_idx == 1 else self.layers[0](batch).sum()

        def on_before_optimizer_step(self, optimizer):
            steps.append(self.layers[0].bias.grad[0].item())

    class Steps(Watched):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer.step(closure=optimizer_closure)

    monkeypatch.setattr(Trainer, "policy", Policy(full_windows=True))
    module = (Steps if closure else Watched)(OPTIMIZERS["SGD"])
    trainer(accumulate_grad_batches=3).fit(module, [torch.ones(1, 8)] * 4)
    assert steps == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("kind", "window", "rates"),  # of Lightning 2.6, in two epochs of eight batches
    [
        (StepLR, 1, [1.0] * 3 + [0.5] * 3 + [0.25] * 2 + [0.25] * 3 + [0.125] * 3 + [0.0625] * 2),
        (StepLR, 2, [1.0] * 6 + [0.5] * 2 + [0.5] * 6 + [0.25] * 2),
        (ReduceLROnPlateau, 1, [1.0] * 6 + [0.5] * 2 + [0.5] * 3 + [0.25] * 3 + [0.125] * 2),
        (ReduceLROnPlateau, 2, [1.0] * 8 + [1.0] * 6 + [0.5] * 2),
    ],
)
def test_as_in_lightning_the_frequency_of_steps_counts_the_batches_of_an_epoch(
    kind, window, rates, trainer, net, monkeypatch
):
    seen = []

    class Watched(net):
        def training_step(self, batch, batch_idx):
            seen.append(self.optimizers().param_groups[0]["lr"])
            self.log("seen", 1.0)
            return self.layers(batch).mean()

    def make(module):
        optimizer = SGD(module.parameters(), lr=1.0)
        scheduler = kind(optimizer, 1, 0.5) if kind is StepLR else kind(optimizer, patience=0, factor=0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": "step", "frequency": 3, "monitor": "seen"}]

    monkeypatch.setattr(Trainer, "policy", Policy(schedules_by_batch=True))
    trainer(max_epochs=2, accumulate_grad_batches=window).fit(Watched(make), [torch.ones(1, 8)] * 8)
    assert seen == rates


def test_a_plateau_scheduler_steps_with_the_epochs_metric(trainer, net, loader, seeded, same):
    metrics = [1.0, 1.0, 1.0, 0.5, 0.6, 0.7]
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    scheduler = ReduceLROnPlateau(optimizer, patience=0, factor=0.3)
    values = iter(metrics)
    by_hand(theirs, loader(), 6, optimizer=optimizer, each_epoch=lambda: scheduler.step(next(values)))

    class Watched(net):
        def on_train_epoch_end(self):
            self.log("seen", metrics[self.current_epoch])

    def make(module):
        optimizer = OPTIMIZERS["SGD"](module)
        return {
            "optimizer": optimizer,
            "lr_scheduler": ReduceLROnPlateau(optimizer, patience=0, factor=0.3),
            "monitor": "seen",
        }

    mine = seeded(Watched, make)
    trainer(max_epochs=6).fit(mine, loader())
    same(mine, theirs)


def test_a_plateau_scheduler_that_goes_by_steps_waits_for_the_validation_at_its_step(
    trainer, net, loader, seeded, same
):
    metrics = [1.0, 1.0, 0.5, 0.6, 0.7]
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    scheduler = ReduceLROnPlateau(optimizer, patience=0, factor=0.3)
    values, steps = iter(metrics), iter(range(1, 26))
    by_hand(theirs, loader(), 1, 1, optimizer, lambda: next(steps) % 5 or scheduler.step(next(values)))
    seen = iter(metrics)

    class Watched(net):
        def validation_step(self, batch, batch_idx):
            self.log("seen", next(seen))

    def make(module):
        optimizer = OPTIMIZERS["SGD"](module)
        plateau = ReduceLROnPlateau(optimizer, patience=0, factor=0.3)
        config = {"scheduler": plateau, "monitor": "seen", "interval": "step", "frequency": 5}
        return {"optimizer": optimizer, "lr_scheduler": config}

    mine = seeded(Watched, make)
    fit = trainer(val_check_interval=5, num_sanity_val_steps=0)
    fit.fit(mine, loader(), [torch.ones(1)])
    same(mine, theirs)
    assert next(seen, None) is None


def test_an_overridden_lr_scheduler_step_replaces_the_schedulers_own(trainer, net, loader, seeded, same):
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    scheduler = StepLR(optimizer, 1, 0.5)
    by_hand(theirs, loader(), 3, optimizer=optimizer, each_epoch=lambda: (scheduler.step(), scheduler.step()))

    class Twice(net):
        def lr_scheduler_step(self, scheduler, metric):
            assert metric is None
            scheduler.step()
            scheduler.step()

    def make(module):
        optimizer = OPTIMIZERS["SGD"](module)
        return [optimizer], [StepLR(optimizer, 1, 0.5)]

    mine = seeded(Twice, make)
    trainer(max_epochs=3).fit(mine, loader())
    same(mine, theirs)


def test_the_schedules_length_can_be_read_inside_configure_optimizers(trainer, net, loader, seeded, same):
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    scheduler = OneCycleLR(optimizer, max_lr=0.2, total_steps=39)
    by_hand(theirs, loader(), 3, 2, optimizer, scheduler.step)
    seen = []

    def make(module):
        seen.append(module.trainer.estimated_stepping_batches)
        optimizer = OPTIMIZERS["SGD"](module)
        schedule = OneCycleLR(optimizer, max_lr=0.2, total_steps=seen[0])
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    mine = seeded(net, make)
    trainer(max_epochs=3, accumulate_grad_batches=2).fit(mine, loader())
    assert seen == [39]  # 25 batches an epoch: 12 windows of two, and one of a single batch
    same(mine, theirs)


@pytest.mark.parametrize(
    ("epochs", "windows", "steps"),
    [(0, {0: 2}, 0), (3, {0: 1, 2: 5}, 25 + 25 + 5), (3, {0: 5, 7: 1}, 15), (10**9, 2, 13 * 10**9)],
)
def test_the_schedules_length_follows_the_windows_of_any_number_of_epochs(epochs, windows, steps, trainer, net, loader):
    seen = []

    def make(module):
        seen.append(module.trainer.estimated_stepping_batches)
        return OPTIMIZERS["SGD"](module)

    fit = trainer(max_epochs=epochs, accumulate_grad_batches=windows)
    module = net(make)
    module.on_train_start = lambda: setattr(fit, "should_stop", True)
    fit.fit(module, loader())
    assert seen == [steps]


# ---- clipping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("algorithm", ["norm", "value"])
def test_clipping_equals_torchs_functions(algorithm, window, trainer, net, loader, seeded, same):
    clips = {
        "norm": lambda params: nn.utils.clip_grad_norm_(params, 0.1),
        "value": lambda params: nn.utils.clip_grad_value_(params, 0.1),
    }
    theirs = by_hand(seeded(net, OPTIMIZERS["Adam"]), loader(), window=window, clip=clips[algorithm])
    mine = seeded(net, OPTIMIZERS["Adam"])
    arguments = {"gradient_clip_val": 0.1, "gradient_clip_algorithm": algorithm, "accumulate_grad_batches": window}
    trainer(max_epochs=4, **arguments).fit(mine, loader())
    same(mine, theirs)


def test_an_overridden_configure_gradient_clipping_gets_the_trainers_values(trainer, net, loader, seeded, same):
    theirs = by_hand(seeded(net), loader(), clip=lambda params: nn.utils.clip_grad_norm_(params, 0.25))
    seen = set()

    class Own(net):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            seen.add((gradient_clip_val, gradient_clip_algorithm))
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    mine = seeded(Own)
    trainer(max_epochs=4, gradient_clip_val=0.25, gradient_clip_algorithm="norm").fit(mine, loader())
    assert seen == {(0.25, "norm")}
    same(mine, theirs)


def test_clipping_can_be_changed_between_batches(trainer, net, loader, seeded, same):
    limits = iter([None] * 50 + [0.1] * 50)

    def clip(params):
        limit = next(limits)
        if limit is not None:
            nn.utils.clip_grad_norm_(params, limit)

    theirs = by_hand(seeded(net), loader(), clip=clip)

    class Changes(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if self.global_step == 50:
                self.trainer.gradient_clip_val = 0.1

    mine = seeded(Changes)
    trainer(max_epochs=4).fit(mine, loader())
    same(mine, theirs)


# ---- accumulation ----------------------------------------------------------------------------------------------------


class Stream(IterableDataset):
    """The same samples without a length."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return (self.data[i] for i in range(len(self.data)))


@pytest.mark.parametrize("window", [2, 4])
def test_accumulation_equals_the_hand_written_loop(window, trainer, net, loader, seeded, same, feed):
    theirs = by_hand(seeded(net, OPTIMIZERS["Adam"]), loader(), window=window)
    mine = seeded(net, OPTIMIZERS["Adam"])
    fit = trainer(max_epochs=4, accumulate_grad_batches=window)
    fit.fit(mine, loader())
    same(mine, theirs)
    assert fit.global_step == 4 * -(-25 // window)


def test_a_partial_window_of_an_unsized_loader_divides_by_its_true_count(trainer, net, loader, seeded):
    def stream():
        return DataLoader(Stream(loader().dataset), batch_size=4)

    theirs = by_hand(seeded(net), stream(), window=4)
    mine = seeded(net)
    fit = trainer(max_epochs=4, accumulate_grad_batches=4)
    fit.fit(mine, stream())
    assert fit.global_step == 28
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_equal_micro_batches_give_the_big_batchs_gradient(trainer, net, loader):
    def gradient(batch_size, window):
        torch.manual_seed(0)
        module = net(layers=nn.Linear(8, 3))
        trainer(accumulate_grad_batches=window, max_steps=1).fit(module, loader(batch_size=batch_size, shuffle=False))
        return module.layers.weight.grad

    torch.testing.assert_close(gradient(4, 5), gradient(20, 1), rtol=1e-6, atol=1e-6)


def test_accumulation_can_follow_a_schedule_of_epochs(trainer, net, loader, seeded, same):
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    batches = loader()
    for window in (1, 1, 4, 5):
        by_hand(theirs, batches, 1, window, optimizer)
    mine = seeded(net)
    fit = trainer(max_epochs=4, accumulate_grad_batches={2: 4, 3: 5})
    fit.fit(mine, loader())
    same(mine, theirs)
    assert fit.global_step == 25 + 25 + 7 + 5


def test_ragged_windows_are_exact_where_the_step_returns_a_loss_weight(trainer, net, loader, seeded):
    """A window of 32, 32, 32 and 4 samples gives the gradient of the mean over its 100 samples."""

    class Weighted(net):
        def training_step(self, batch, batch_idx):
            return {"loss": self.loss(batch), "loss_weight": len(batch[1])}

    def gradient(kind, batch_size, window):
        torch.manual_seed(0)
        module = kind(layers=nn.Linear(8, 3))
        fit = trainer(accumulate_grad_batches=window, max_steps=1)
        fit.fit(module, loader(batch_size=batch_size, shuffle=False))
        assert fit.global_step == 1
        return module.layers.weight.grad

    torch.testing.assert_close(gradient(Weighted, 32, 4), gradient(net, 100, 1), rtol=1e-6, atol=1e-7)
    assert not torch.allclose(gradient(net, 32, 4), gradient(net, 100, 1), rtol=1e-3, atol=1e-4)


def test_a_batch_whose_step_returns_none_is_skipped(trainer, net, loader, seeded, same):
    class Picked:
        def __iter__(self):
            return (batch for i, batch in enumerate(loader()) if i % 3)

    theirs = by_hand(seeded(net), Picked(), 2)

    class Skips(net):
        def training_step(self, batch, batch_idx):
            return self.loss(batch) if batch_idx % 3 else None

    mine = seeded(Skips)
    fit = trainer(max_epochs=2)
    fit.fit(mine, loader())
    same(mine, theirs)
    assert fit.global_step == 2 * 16


@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("without", [(2,), (0, 1), (4, 5), (0, 1, 2, 3, 4, 5)])
def test_as_in_lightning_a_window_without_a_loss_counts_as_a_step(
    without, window, closure, trainer, net, seeded, same, monkeypatch
):
    batches = [torch.full((2, 8), float(index)) for index in range(6)]

    class Skips(net):
        def training_step(self, batch, batch_idx):
            return None if batch_idx in without else self.layers(batch).mean()

        def configure_optimizers(self):
            optimizer = AdamW(self.parameters(), lr=0.1)
            return [optimizer], [{"scheduler": StepLR(optimizer, 1, 0.5), "interval": "step"}]

        def on_train_batch_end(self, outputs, batch, batch_idx):
            steps.append(self.trainer.global_step)

    class Closes(Skips):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer.step(closure=optimizer_closure)

    theirs, steps, counted = seeded(Skips), [], []
    (optimizer,), (schedule,) = theirs.configure_optimizers()
    for index, batch in [*enumerate(batches)] * 2:
        if index % window == 0:
            optimizer.zero_grad()
        if index not in without:
            (theirs.layers(batch).mean() / window).backward()
        if (index + 1) % window == 0 or index == 5:
            optimizer.step()
            schedule["scheduler"].step()
            counted.append(1)
        else:
            counted.append(0)
    monkeypatch.setattr(Trainer, "policy", Policy(full_windows=True, epochs_without_loss=True))
    mine = seeded(Closes if closure else Skips)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*training_step returned no loss")
        warnings.filterwarnings(
            "ignore", "Detected call of `lr_scheduler.step"
        )  # torch: of a first step without a loss
        trainer(max_epochs=2, accumulate_grad_batches=window).fit(mine, batches)
    same(mine, theirs)
    assert steps == list(accumulate(counted))


def test_a_window_divides_by_the_batches_that_gave_a_loss(trainer, net, loader):
    class Skips(net):
        def training_step(self, batch, batch_idx):
            return self.loss(batch) if batch_idx != 1 else None

    def gradient(kind, batches):
        torch.manual_seed(0)
        module = kind(layers=nn.Linear(8, 3))
        trainer(accumulate_grad_batches=len(batches)).fit(module, batches)
        return module.layers.weight.grad

    batches = list(loader(shuffle=False))
    skipping = gradient(Skips, batches[:3])
    torch.testing.assert_close(skipping, gradient(net, [batches[0], batches[2]]), rtol=1e-6, atol=1e-7)


# ---- hooks that replace parts of the step ----------------------------------------------------------------------------


def test_lbfgs_equals_the_hand_written_closure(trainer, net, loader, seeded, same):
    def make(module):
        return LBFGS(module.parameters(), lr=0.5, max_iter=4)

    def smooth():
        return net(make, layers=nn.Linear(8, 3))

    theirs = seeded(smooth)
    optimizer = theirs.configure_optimizers()
    batches = list(loader(shuffle=False))[:10]
    for batch in batches * 2:

        def closure(batch=batch):
            optimizer.zero_grad()
            loss = theirs.loss(batch)
            loss.backward()
            return loss

        optimizer.step(closure)
    mine = seeded(smooth)
    fit = trainer(max_epochs=2)
    fit.fit(mine, batches)
    same(mine, theirs)
    assert fit.global_step == 20


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimization: climb to the worst point nearby, step with the gradient found there."""

    def __init__(self, params, rho=0.05):
        super().__init__(params, {"rho": rho})
        self.base = SGD(self.param_groups, lr=0.1)

    @torch.no_grad()
    def first_step(self):
        for p in (p for group in self.param_groups for p in group["params"]):
            self.state[p]["start"] = p.clone()
            p.add_(p.grad, alpha=self.param_groups[0]["rho"])

    @torch.no_grad()
    def second_step(self):
        for p in (p for group in self.param_groups for p in group["params"]):
            p.copy_(self.state[p]["start"])
        self.base.step()

    def step(self, closure=None):
        raise AssertionError("not used")


def test_an_overridden_optimizer_step_may_call_its_closure_twice(trainer, net, loader, seeded, same):
    theirs = seeded(net, lambda module: SAM(module.parameters()))
    optimizer = theirs.configure_optimizers()
    for batch in loader():
        for step in (optimizer.first_step, optimizer.second_step):
            optimizer.zero_grad()
            theirs.loss(batch).backward()
            step()

    class Sharp(net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            loss = optimizer_closure()
            assert loss.shape == ()
            assert not loss.requires_grad
            optimizer.first_step()
            optimizer_closure()
            optimizer.second_step()

    mine = seeded(Sharp, lambda module: SAM(module.parameters()))
    fit = trainer()
    fit.fit(mine, loader())
    same(mine, theirs)
    assert fit.global_step == 25


def test_an_overridden_optimizer_step_can_warm_up(trainer, net, loader, seeded, same):
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    for i, batch in enumerate(loader()):
        optimizer.zero_grad()
        theirs.loss(batch).backward()
        optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, (i + 1) / 10)
        optimizer.step()

    class WarmsUp(net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 * min(1.0, (self.trainer.global_step + 1) / 10)
            super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)

    mine = seeded(WarmsUp)
    trainer().fit(mine, loader())
    same(mine, theirs)


def test_an_optimizer_step_that_does_not_step_is_not_counted(trainer, net, loader):
    class EverySecond(net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            if batch_idx % 2:
                optimizer.step(closure=optimizer_closure)
            else:
                optimizer_closure()

    fit = trainer()
    fit.fit(EverySecond(), loader())
    assert fit.global_step == 12


@pytest.mark.parametrize("window", [1, 2])
def test_hooks_around_backward_are_the_modules_own(window, trainer, net, loader, seeded, same):
    """Overridden backward and optimizer_zero_grad do what they say, once for each backward and each window."""
    theirs = seeded(net)
    optimizer = theirs.configure_optimizers()
    waiting = []
    for batch in loader(96):
        waiting.append(batch)
        if len(waiting) == window:
            for p in theirs.parameters():
                p.grad = torch.full_like(p, 0.01)
            for b in waiting:
                (theirs.loss(b) * 2 / window).backward()
            optimizer.step()
            waiting = []

    class Own(net):
        def backward(self, loss):
            (loss * 2).backward()

        def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
            for p in self.parameters():
                p.grad = torch.full_like(p, 0.01)

    mine = seeded(Own)
    trainer(accumulate_grad_batches=window).fit(mine, loader(96))
    same(mine, theirs)


# ---- what draws before the first batch -------------------------------------------------------------------------------


def late(net, hook):
    """Return a module that draws its first layer anew in ``hook``."""
    return type("Late", (net,), {hook: lambda module: nn.init.normal_(module.layers[0].weight)})


def by_hand_with(make_iterator_first, module, batches, hook):
    """Two epochs of the plain loop; set-up code comes before the first ``iter``, or after it as in Lightning."""
    optimizer = module.configure_optimizers()
    for epoch in range(2):
        iterator = iter(batches) if make_iterator_first and not epoch else None
        if hook == "on_train_epoch_start" or not epoch:
            getattr(module, hook)()
        for batch in iter(batches) if iterator is None else iterator:
            run_window(module, optimizer, [batch], None, None)
    return module


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("hook", ["on_train_start", "on_train_epoch_start"])
@pytest.mark.parametrize("lightning", [False, True])
def test_draws_of_the_hooks_come_before_the_iterators_and_in_lightning_after_the_first(
    lightning, hook, workers, trainer, net, loader, seeded, same, feed, monkeypatch
):
    theirs = by_hand_with(lightning, seeded(late(net, hook)), loader(num_workers=workers), hook)
    monkeypatch.setattr(Trainer, "policy", Policy(loaders_before_hooks=lightning))
    mine = seeded(late(net, hook))
    trainer(max_epochs=2).fit(mine, loader(num_workers=workers))
    same(mine, theirs)


@pytest.mark.parametrize(("run", "word"), [("validate", "validation"), ("test", "test"), ("predict", "predict")])
@pytest.mark.parametrize("lightning", [False, True])
def test_draws_of_the_hooks_that_begin_an_evaluation_come_before_its_iterator_and_in_lightning_after_it(
    lightning, run, word, trainer, net, loader, monkeypatch
):
    monkeypatch.setattr(Trainer, "policy", Policy(loaders_before_hooks=lightning))
    drawn = []
    module, batches = net(), loader()
    setattr(module, f"{word}_step", lambda batch, batch_idx: drawn.append(torch.rand(())))
    setattr(module, f"on_{word}_start", lambda: drawn.append(torch.rand(())))
    torch.manual_seed(0)
    getattr(trainer(), run)(module, batches)
    torch.manual_seed(0)
    early = iter(batches) if lightning else None
    by_hand = [torch.rand(())]
    by_hand += [torch.rand(()) for _ in (early or batches)]
    assert drawn == by_hand


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resume_in_the_first_epoch_is_exact_where_its_iterator_was_made_first(
    workers, rows, trainer, net, loader, seeded, same, monkeypatch, tmp_path
):
    pytest.importorskip("lt_data")  # core's own feed makes the iterator and draws the order in one go
    monkeypatch.setattr(Trainer, "policy", Policy(loaders_before_hooks=True))

    def data():
        return loader(12, num_workers=workers, **({} if rows else {"collate_fn": default_collate_of_its_own}))

    kind = late(net, "on_train_start")
    whole = seeded(kind)
    trainer(max_epochs=2).fit(whole, data())
    cut = trainer(max_steps=1)
    cut.fit(seeded(kind), data())
    cut.save_checkpoint(tmp_path / "cut.ckpt")
    resumed = seeded(kind)
    resumed.on_train_start = lambda: None  # else it would draw its weights anew
    trainer(max_epochs=2).fit(resumed, data(), ckpt_path=tmp_path / "cut.ckpt")
    same(resumed, whole)


def default_collate_of_its_own(samples):
    return default_collate(samples)
