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
    """Uses a closure where it gets one."""

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
