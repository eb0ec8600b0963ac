"""Several named optimizers, and manual optimization, equal the loops that one writes by hand, bit for bit."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.optim import LBFGS, SGD, Adam
from torch.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau

from lt_core import Callback, HookError, LightningModule
from lt_core.errors import ConfigError, LtWarning


class GAN(LightningModule):
    """Generator and discriminator on eight numbers."""

    def __init__(self):
        super().__init__()
        self.gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
        self.disc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))

    def losses(self, real):
        fake = self.gen(torch.randn(len(real), 4))
        return {"gen": self.gen_loss(fake), "disc": self.disc_loss(real, fake.detach())}

    def gen_loss(self, fake):
        scores = self.disc(fake)
        return bce(scores, torch.ones_like(scores))

    def disc_loss(self, real, fake):
        scores = torch.cat([self.disc(real), self.disc(fake)])
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(fake), 1)])
        return bce(scores, truth)

    def pair(self):
        return Adam(self.gen.parameters(), lr=1e-2), Adam(self.disc.parameters(), lr=1e-2)

    def configure_optimizers(self):
        gen, disc = self.pair()
        return {"gen": gen, "disc": disc}

    def training_step(self, batch, batch_idx):
        return self.losses(batch[0])


def train_by_hand(module, loader, epochs=4, window=1, clip=None, each_step=None):
    """Both losses of one forward, both backwards, then both steps."""
    gen, disc = module.pair()
    for _ in range(epochs):
        waiting = []
        batches = list(loader)
        for i, (real, _) in enumerate(batches):
            waiting.append(real)
            if len(waiting) < window and i + 1 < len(batches):
                continue
            gen.zero_grad()
            disc.zero_grad()
            for part in waiting:
                losses = module.losses(part)
                (losses["gen"] / len(waiting)).backward(inputs=list(module.gen.parameters()))
                (losses["disc"] / len(waiting)).backward(inputs=list(module.disc.parameters()))
            for optimizer in (gen, disc):
                if clip is not None:
                    clip(optimizer.param_groups[0]["params"])
                optimizer.step()
            waiting = []
            if each_step is not None:
                each_step(gen)
    return module


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_loss_for_each_named_optimizer_equals_the_hand_written_loop(window, trainer, loader, seeded, same):
    theirs = train_by_hand(seeded(GAN), loader(shuffle=False), window=window)

    class Batches:
        """Draws what the hand-written loop draws, at the same moment."""

        def __iter__(self):
            return iter(list(loader(shuffle=False)))

        def __len__(self):
            return 25

    mine = seeded(GAN)
    fit = trainer(max_epochs=4, accumulate_grad_batches=window)
    fit.fit(mine, Batches())
    same(mine, theirs)
    assert fit.global_step == 4 * -(-25 // window)


def test_clipping_is_done_for_each_optimizer_by_itself(trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))

    def clip(params):
        nn.utils.clip_grad_norm_(params, 0.05)

    theirs = train_by_hand(seeded(GAN), batches, clip=clip)
    mine = seeded(GAN)
    trainer(max_epochs=4, gradient_clip_val=0.05).fit(mine, batches)
    same(mine, theirs)


def test_schedulers_of_named_optimizers_step_on_their_own(trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))

    class Scheduled(GAN):
        def configure_optimizers(self):
            gen, disc = self.pair()
            config = {"scheduler": ExponentialLR(gen, 0.97), "interval": "step"}
            return {"gen": {"optimizer": gen, "lr_scheduler": config}, "disc": disc}

    def decay(optimizer):
        optimizer.param_groups[0]["lr"] *= 0.97

    theirs = train_by_hand(seeded(GAN), batches, each_step=decay)
    mine = seeded(Scheduled)
    trainer(max_epochs=4).fit(mine, batches)
    same(mine, theirs)


def test_named_optimizers_can_share_one_loss(trainer, net, loader, seeded, same):
    batches = list(loader(shuffle=False))

    def pair(module):
        return SGD(module.layers[0].parameters(), lr=0.05), Adam(module.layers[3].parameters(), lr=1e-2)

    theirs = seeded(net)
    first, second = pair(theirs)
    for batch in batches * 4:
        first.zero_grad()
        second.zero_grad()
        theirs.loss(batch).backward()
        first.step()
        second.step()
    mine = seeded(net, lambda module: dict(zip(("body", "head"), pair(module), strict=True)))
    fit = trainer(max_epochs=4)
    fit.fit(mine, batches)
    same(mine, theirs)
    assert fit.global_step == 100


def test_a_dict_of_losses_chooses_which_optimizers_step(trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))
    stepped = []

    class Slow(GAN):
        """Steps the generator at every third batch, the discriminator at all others."""

        def configure_optimizers(self):
            return {
                "gen": SGD(self.gen.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1),
                "disc": SGD(self.disc.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1),
            }

        def training_step(self, batch, batch_idx):
            losses = self.losses(batch[0])
            return {"gen": losses["gen"]} if batch_idx % 3 == 0 else {"gen": None, "disc": losses["disc"]}

        def on_before_optimizer_step(self, optimizer):
            stepped.append("gen" if optimizer is self.trainer.optimizers[0] else "disc")

    theirs = seeded(Slow)
    made = theirs.configure_optimizers()
    for i, (real, _) in enumerate(batches):
        name = "disc" if i % 3 else "gen"
        made[name].zero_grad()
        theirs.losses(real)[name].backward(inputs=list(getattr(theirs, name).parameters()))
        made[name].step()
    mine = seeded(Slow)
    fit = trainer()
    fit.fit(mine, batches)
    same(mine, theirs)
    assert stepped[:4] == ["gen", "disc", "disc", "gen"]
    assert fit.global_step == 25


def test_an_overridden_optimizer_step_is_called_for_each_named_optimizer(trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))
    theirs = train_by_hand(seeded(GAN), batches)
    calls = []

    class Own(GAN):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            calls.append((epoch, batch_idx, type(optimizer.optimizer).__name__))
            optimizer.step(closure=optimizer_closure)

    mine = seeded(Own)
    trainer(max_epochs=4).fit(mine, batches)
    same(mine, theirs)
    assert calls[:3] == [(0, 0, "Adam"), (0, 0, "Adam"), (0, 1, "Adam")]


def test_a_loss_of_an_unknown_optimizer_is_an_error_with_the_near_name(trainer, loader):
    class Wrong(GAN):
        def training_step(self, batch, batch_idx):
            losses = self.losses(batch[0])
            return {"gen": losses["gen"], "dics": losses["disc"]}

    with pytest.raises(HookError, match=r"'dics'.*Did you mean 'disc'"):
        trainer().fit(Wrong(), loader())


@pytest.mark.parametrize("both", ["all", "one layer"])
def test_optimizers_over_the_same_parameters_are_an_error(both, trainer, loader):
    class Shared(GAN):
        def configure_optimizers(self):
            shared = self.parameters() if both == "all" else [*self.disc.parameters(), *self.gen[0].parameters()]
            return {"gen": Adam(self.gen.parameters()), "disc": Adam(shared)}

    with pytest.raises(HookError, match=r"2 optimizers over the same parameters.*each over parameters of its own"):
        trainer().fit(Shared(), loader())


def test_several_optimizers_without_names_are_an_error_that_shows_both_ways_out(trainer, loader):
    class Unnamed(GAN):
        def configure_optimizers(self):
            return list(self.pair())

    with pytest.raises(HookError, match=r"dict of named ones.*automatic_optimization = False"):
        trainer().fit(Unnamed(), loader())


def test_an_overridden_backward_is_called_with_each_loss(trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))
    theirs = train_by_hand(seeded(GAN), batches)
    calls = []

    class Own(GAN):
        def backward(self, loss, *args, **kwargs):
            calls.append(sorted(kwargs))
            loss.backward(*args, **kwargs)

    mine = seeded(Own)
    trainer(max_epochs=4).fit(mine, batches)
    same(mine, theirs)
    assert calls == [["inputs", "retain_graph"]] * 200


def test_an_overridden_backward_that_cannot_be_told_whose_loss_it_is_is_an_error(trainer, loader):
    class Own(GAN):
        def backward(self, loss):
            loss.backward()

    with pytest.raises(HookError, match=r"Own.backward\(loss\).*def backward\(self, loss, \*args, \*\*kwargs\).*LT307"):
        trainer().fit(Own(), loader())


# ---- manual optimization ---------------------------------------------------------------------------------------------


class ManualGAN(GAN):
    """The same GAN, stepping by itself, the discriminator first."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        return list(self.pair())

    def training_step(self, batch, batch_idx):
        gen, disc = self.optimizers()
        real = batch[0]
        fake = self.gen(torch.randn(len(real), 4))
        self.toggle_optimizer(disc)
        disc.zero_grad()
        self.manual_backward(self.disc_loss(real, fake.detach()))
        disc.step()
        self.untoggle_optimizer(disc)
        with gen.toggle_model():
            assert not any(p.requires_grad for p in self.disc.parameters())
            gen.zero_grad()
            self.manual_backward(self.gen_loss(self.gen(torch.randn(len(real), 4))))
            gen.step()


class Toggling(GAN):
    """Toggles in its first batch, and leaves that undone."""

    automatic_optimization = False
    configure_optimizers = GAN.pair
    begins = True

    def validation_step(self, batch, batch_idx):
        pass

    def training_step(self, batch, batch_idx):
        gen, disc = self.optimizers()
        if self.begins:
            self.toggle_optimizer(gen)
            self.begins = False
            self.how(gen, disc)
        self.on = {name: {p.requires_grad for p in part.parameters()} for name, part in self.named_children()}


def fails(module, gen, disc):
    raise ArithmeticError


def forgets(module, gen, disc):
    module.trainer.should_stop = True


def takes_turns(module, gen, disc):
    module.toggle_optimizer(disc)
    assert all(p.requires_grad for p in module.disc.parameters())
    assert not any(p.requires_grad for p in module.gen.parameters())
    module.untoggle_optimizer(disc)
    module.untoggle_optimizer(gen)


def nests(module, gen, disc):
    with disc.toggle_model():
        assert all(p.requires_grad for p in module.disc.parameters())
    module.untoggle_optimizer(gen)


def evaluates(module, gen, disc):
    module.inner.validate(module, [(torch.zeros(1, 8), torch.zeros(1))], verbose=False)
    assert not any(p.requires_grad for p in module.disc.parameters())
    module.untoggle_optimizer(gen)


@pytest.mark.parametrize("how", [fails, forgets, takes_turns, nests, evaluates])
@pytest.mark.filterwarnings("ignore::lt_core.errors.LtWarning")  # no optimizer is stepped
def test_gradients_that_a_toggle_turned_off_are_on_again(how, trainer, loader):
    module = Toggling()
    Toggling.how, Toggling.inner = how, trainer()
    frozen = module.gen[0].bias.requires_grad_(False)
    one = trainer(max_epochs=1)
    with pytest.raises(ArithmeticError) if how is fails else nullcontext():
        one.fit(module, loader())
    assert all(p.requires_grad for p in module.parameters() if p is not frozen)
    assert not frozen.requires_grad
    trainer(max_epochs=1).fit(module, loader())
    assert module.on == {"gen": {True, False}, "disc": {True}}


def step_by_hand(module, real, gen, disc, clip=None):
    fake = module.gen(torch.randn(len(real), 4))
    disc.zero_grad()
    module.disc_loss(real, fake.detach()).backward()
    if clip is not None:
        clip(module.disc.parameters())
    disc.step()
    gen.zero_grad()
    module.gen_loss(module.gen(torch.randn(len(real), 4))).backward()
    if clip is not None:
        clip(module.gen.parameters())
    gen.step()


@pytest.mark.parametrize("limit", [None, 0.05])
def test_a_manual_gan_equals_the_hand_written_loop(limit, trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))
    theirs = seeded(GAN)
    gen, disc = theirs.pair()
    for real, _ in batches * 4:
        step_by_hand(theirs, real, gen, disc, limit and (lambda params: nn.utils.clip_grad_norm_(params, limit)))
    mine = seeded(ManualGAN)
    fit = trainer(max_epochs=4, gradient_clip_val=limit)
    fit.fit(mine, batches)
    same(mine, theirs)
    assert fit.global_step == 100
    assert all(p.requires_grad for p in mine.parameters())


class ManualNet(LightningModule):
    """One optimizer, by hand."""

    def __init__(self, make=None):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.automatic_optimization = False
        self.make = make or (lambda module: SGD(module.parameters(), lr=0.1))

    def loss(self, batch):
        return (self.layer(batch[0]).squeeze(1) - batch[1]).pow(2).mean()

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()

    def configure_optimizers(self):
        return self.make(self)


class SetsWindow(Callback):
    """Sets the window where ``hook`` runs."""

    def __init__(self, hook):
        setattr(self, hook, lambda trainer, *args: setattr(trainer, "accumulate_grad_batches", 2))


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({"accumulate_grad_batches": 2}, 0),
        ({"accumulate_grad_batches": {0: 1, 3: 4}}, 0),
        ({"global_batch_size": 8}, 0),
        ({"callbacks": SetsWindow("on_fit_start")}, 0),
        ({"callbacks": SetsWindow("on_train_start")}, 0),
        ({"callbacks": SetsWindow("on_train_epoch_start")}, 0),
        ({"callbacks": SetsWindow("on_train_epoch_end")}, 25),
    ],
)
def test_accumulation_by_the_trainer_is_refused_in_manual_optimization(arguments, steps, trainer, loader):
    fit = trainer(max_epochs=2, **arguments)
    with pytest.raises(ConfigError, match=r"(accumulate_grad_batches|global_batch_size)=.*batch_idx \+ 1.*LT530"):
        fit.fit(ManualNet(), loader())
    assert fit.global_step == steps


def test_manual_optimization_takes_as_many_steps_as_max_steps_says(trainer, loader, seeded, same):
    class EverySecond(ManualNet):
        def training_step(self, batch, batch_idx):
            self.manual_backward(self.loss(batch) / 2)
            if (batch_idx + 1) % 2 == 0:
                self.optimizers().step()
                self.optimizers().zero_grad()

    batches, theirs, mine = list(loader(shuffle=False)), seeded(EverySecond), seeded(EverySecond)
    optimizer = theirs.configure_optimizers()
    for index, batch in enumerate(batches[:6]):
        (theirs.loss(batch) / 2).backward()
        if index % 2:
            optimizer.step()
            optimizer.zero_grad()
    fit = trainer(max_steps=3, accumulate_grad_batches=1)
    fit.fit(mine, batches)
    same(mine, theirs)
    assert fit.global_step == 3


def test_a_closure_in_manual_optimization_is_clipped_and_has_its_hooks(trainer, loader, seeded, same):
    batches = list(loader(shuffle=False))

    def make(module):
        return LBFGS(module.parameters(), lr=0.5, max_iter=3)

    theirs = seeded(ManualNet, make)
    optimizer = theirs.configure_optimizers()
    for batch in batches:

        def closure(batch=batch):
            optimizer.zero_grad()
            loss = theirs.loss(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
            return loss

        optimizer.step(closure)
    seen = []

    class Closures(ManualNet):
        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()

            def closure():
                optimizer.zero_grad()
                loss = self.loss(batch)
                self.manual_backward(loss)
                return loss

            seen.append(optimizer.step(closure))

        def on_before_optimizer_step(self, optimizer):
            seen.append("hook")

    mine = seeded(Closures, make)
    trainer(gradient_clip_val=0.5).fit(mine, batches)
    same(mine, theirs)
    assert seen[0] == "hook"
    assert sum(isinstance(value, torch.Tensor) for value in seen) == 25


def test_a_manual_step_that_does_not_step_is_not_counted(trainer, loader):
    class EverySecond(ManualNet):
        def training_step(self, batch, batch_idx):
            self.manual_backward(self.loss(batch))
            if batch_idx % 2:
                self.optimizers().step()
                self.optimizers().zero_grad()

    fit = trainer()
    fit.fit(EverySecond(), loader())
    assert fit.global_step == 12


@pytest.mark.parametrize("form", [None, {"interval": "step"}, {"interval": "epoch", "frequency": 1}])
def test_schedulers_are_the_users_in_manual_optimization(form, trainer, loader):
    def make(module):
        optimizer = SGD(module.parameters(), lr=1.0)
        scheduler = ExponentialLR(optimizer, 0.5)
        return [optimizer], [scheduler if form is None else {"scheduler": scheduler, **form}]

    class Scheduled(ManualNet):
        def training_step(self, batch, batch_idx):
            super().training_step(batch, batch_idx)
            if batch_idx == 3:
                self.lr_schedulers().step()

    module = Scheduled(make)
    fit = trainer(max_epochs=2)
    told = nullcontext() if form is None else pytest.warns(LtWarning, match=r"which does nothing in manual.*LT334")
    with told:
        fit.fit(module, loader())
    assert fit.optimizers[0].param_groups[0]["lr"] == 0.25


def test_a_plateau_in_manual_optimization_needs_no_monitor(trainer, loader):
    class Plateau(ManualNet):
        def on_train_epoch_end(self):
            self.lr_schedulers().step(1.0)

    def make(module):
        optimizer = SGD(module.parameters(), lr=1.0)
        return [optimizer], [ReduceLROnPlateau(optimizer, factor=0.5, patience=0)]

    fit = trainer(max_epochs=3)
    fit.fit(Plateau(make), loader())
    assert fit.optimizers[0].param_groups[0]["lr"] == 0.25


def test_manual_backward_in_automatic_optimization_is_an_error(trainer, net, loader):
    class Mixed(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.manual_backward(loss)
            return loss

    with pytest.raises(ValueError, match="automatic_optimization is True"):
        trainer().fit(Mixed(), loader())


def test_manual_backward_passes_on_what_torchs_backward_takes(trainer, loader):
    class Twice(ManualNet):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.optimizers().zero_grad()
            self.manual_backward(loss, retain_graph=True)
            once = self.layer.weight.grad.clone()
            self.manual_backward(loss)
            assert torch.equal(self.layer.weight.grad, once * 2)
            self.optimizers().step()

    trainer().fit(Twice(), loader())


def test_torchs_own_optimizers_can_be_had(trainer, loader):
    kinds = []

    class Own(ManualNet):
        trains_without_loss = True

        def training_step(self, batch, batch_idx):
            kinds.append((type(self.optimizers(use_pl_optimizer=False)), isinstance(self.optimizers(), SGD)))

    trainer(max_steps=-1, limit_train_batches=1).fit(Own(), loader())
    assert kinds == [(SGD, True)]
