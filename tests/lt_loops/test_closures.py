"""Optimizers whose step takes a closure are given one, as the loop by hand would."""

import pytest
import torch

from lt_core import ConfigError


class Sharp(torch.optim.SGD):
    """Sharpness-aware: a step up the gradient, the loss there, and from the old place a step down its gradient."""

    def step(self, closure):
        loss = closure()
        params = [p for group in self.param_groups for p in group["params"]]
        kept = [p.detach().clone() for p in params]
        with torch.no_grad():
            for p in params:
                p.add_(0.05 * p.grad)
        closure()
        with torch.no_grad():
            for p, old in zip(params, kept, strict=True):
                p.copy_(old)
        super().step()
        return loss


class Curious(torch.optim.SGD):
    """Needs its closure, although it may be left out."""

    needs_closure = True

    def step(self, closure=None):
        assert closure is not None
        loss = closure()
        super().step()
        return loss


def train_by_hand(module, loader, optimizer, epochs=2):
    for _ in range(epochs):
        for batch in loader:

            def closure(batch=batch):
                loss = module.loss(batch)
                optimizer.zero_grad()
                loss.backward()
                return loss

            optimizer.step(closure)


class Unclear(Curious):
    """Does not say that it needs its closure."""

    needs_closure = False


class Lion(torch.optim.SGD):
    """An optimizer from outside torch, whose closure is optional."""

    def step(self, closure=None):
        self.closures = [*getattr(self, "closures", []), closure]
        loss = None if closure is None else closure()
        super().step()
        return loss


def test_an_optional_closure_is_left_out_and_the_numbers_are_those_of_the_loop_by_hand(
    trainer, net, loader, seeded, same
):
    mine, made = seeded(net, lambda module: Lion(module.parameters(), lr=0.1)), trainer(max_epochs=2)
    made.fit(mine, loader(40))
    assert set(made.optimizers[0].closures) == {None}
    theirs = seeded(net, lambda module: torch.optim.SGD(module.parameters(), lr=0.1))
    train_by_hand(theirs, loader(40), theirs.configure_optimizers())
    same(mine, theirs)


def test_a_step_that_fails_without_its_closure_says_how_to_ask_for_it(trainer, net, loader):
    pytest.importorskip("lt_explain", reason="it says so")
    with pytest.raises(AssertionError) as raised:
        trainer().fit(net(lambda module: Unclear(module.parameters(), lr=0.1)), loader(8))
    assert "Unclear.step was called without a closure" in "".join(raised.value.__notes__)
    assert "needs_closure = True" in "".join(raised.value.__notes__)


def test_a_module_may_ask_for_the_closure_of_its_optimizer(trainer, net, loader, seeded, same):
    class Asks(net):
        needs_closure = True

    mine = seeded(Asks, lambda module: Unclear(module.parameters(), lr=0.1))
    trainer(max_epochs=2).fit(mine, loader(40))
    theirs = seeded(net)
    train_by_hand(theirs, loader(40), Curious(theirs.parameters(), lr=0.1))
    same(mine, theirs)


@pytest.mark.parametrize("kind", [Sharp, Curious])
def test_an_optimizer_of_the_users_gets_its_closure_and_equals_the_loop_by_hand(
    kind, trainer, net, loader, seeded, same
):
    def make():
        return net(lambda module: kind(module.parameters(), lr=0.1))

    mine = seeded(make)
    trainer(max_epochs=2).fit(mine, loader(40))
    theirs = seeded(make)
    train_by_hand(theirs, loader(40), theirs.configure_optimizers())
    same(mine, theirs)


def test_a_closure_that_a_scaler_cannot_follow_is_refused_before_the_first_step(trainer, net, loader):
    pytest.importorskip("lt_strategies")
    module = net(lambda module: Sharp(module.parameters(), lr=0.1))
    with pytest.raises(ConfigError, match=r"Sharp evaluates its closure by itself.*'16-mixed'.*LT302"):
        trainer(precision="16-mixed").fit(module, loader(8))


class Stream:
    """Batches of which nobody says beforehand how many there are."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


@pytest.mark.parametrize("own_step", [False, True])
def test_a_window_that_the_end_of_the_data_cuts_short_steps_by_the_closure_too(
    own_step, trainer, net, loader, seeded, same
):
    class Steps(net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            self.seen = [*getattr(self, "seen", []), float(optimizer.step(closure=optimizer_closure))]

    batches = [*loader(12)]
    mine = seeded(Steps) if own_step else seeded(net, lambda module: Curious(module.parameters(), lr=0.1))
    trainer(accumulate_grad_batches=2).fit(mine, Stream(batches))
    theirs, seen = seeded(net), []
    optimizer = theirs.configure_optimizers()
    for window in (batches[:2], batches[2:]):
        optimizer.zero_grad()
        for batch in window:
            loss = theirs.loss(batch)
            (loss / len(window)).backward()
        optimizer.step()
        seen.append(loss.item())
    same(mine, theirs)
    assert not own_step or mine.seen == seen


class Wrapper:
    """An optimizer around another one, of no class of torch's, that hands all on."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __getattr__(self, name):
        return getattr(self.__dict__["optimizer"], name)

    def step(self, **kwargs):
        return self.optimizer.step(**kwargs)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


class KeywordOnly(torch.optim.SGD):
    def step(self, *, closure=None):
        return super().step(closure)


class Careless(torch.optim.SGD):
    """Calls its closure under ``no_grad``."""

    needs_closure = True

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure()
        super().step()
        return loss


@pytest.mark.parametrize(
    "make", [lambda p: Wrapper(Curious(p, lr=0.1)), lambda p: KeywordOnly(p, lr=0.1), lambda p: Careless(p, lr=0.1)]
)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_however_a_step_takes_its_closure_it_trains_as_by_hand(
    make, precision, trainer, net, loader, seeded, same, request
):
    if precision != "32-true":
        pytest.importorskip("lt_strategies")
    mine = seeded(lambda: net(lambda module: make(module.parameters())))
    trainer(max_epochs=2, precision=precision).fit(mine, loader(40))
    theirs = seeded(net)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(2):
        for batch in loader(40):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision != "32-true"):
                loss = theirs.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    same(mine, theirs)


def test_an_optimizer_that_needs_a_closure_is_refused_among_named_ones(trainer, net, loader):
    module = net(lambda module: {"net": Sharp(module.parameters(), lr=0.1)})
    with pytest.raises(ConfigError, match=r"Sharp evaluates its closure by itself.*LT515"):
        trainer().fit(module, loader(8))


class Noted(torch.optim.SGD):
    """Notes what its step was called with."""

    def __init__(self, params, lr):
        super().__init__(params, lr)
        self.got = []

    def step(self, closure=None, scale=1.0, skip=False):
        self.got.append((closure is not None, scale, skip))
        return super().step(closure)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
@pytest.mark.parametrize("closure", [False, True])
def test_arguments_of_a_manual_step_are_handed_on(precision, closure, trainer, net, loader):
    if precision != "32-true":
        pytest.importorskip("lt_strategies")

    class Manual(net):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()

            def compute():
                optimizer.zero_grad()
                self.manual_backward(self.loss(batch))

            if not closure:
                compute()
            optimizer.step(*[compute] * closure, scale=2.0, skip=True)

    module = Manual(lambda module: Noted(module.parameters(), lr=0.1))
    run = trainer(precision=precision)
    run.fit(module, loader(8))
    by_closure = closure and precision == "32-true"  # a scaler must see the gradients first
    assert run.optimizers[0].got == [(by_closure, 2.0, True)] * 2


def test_arguments_of_a_step_in_optimizer_step_are_handed_on(trainer, net, loader):
    class Hooked(net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer.step(closure=optimizer_closure, scale=3.0)

    run = trainer()
    run.fit(Hooked(lambda module: Noted(module.parameters(), lr=0.1)), loader(8))
    assert run.optimizers[0].got == [(True, 3.0, False)] * 2
