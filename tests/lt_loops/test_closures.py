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
