"""Under lt.compat each optimizer's step gets its closure, as in Lightning; in lt where it asks for it."""

import pytest
import torch

from lt_compat.lightning.trainer import trainer_class
from lt_loops import Trainer


class Optional(torch.optim.SGD):
    """Steps by its closure where it gets one."""

    def step(self, closure=None):
        self.given = closure is not None
        return super().step(closure)


class HandsOn:
    """Hands whatever it gets to the optimizer inside."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __getattr__(self, name):
        return getattr(self.__dict__["optimizer"], name)

    def step(self, **given):
        return self.optimizer.step(**given)


@pytest.mark.parametrize("wrap", [lambda optimizer: optimizer, HandsOn], ids=["own", "wrapped"])
@pytest.mark.parametrize("lightning", [True, False])
def test_an_optional_closure_is_given_under_compat_alone_and_both_train_alike(lightning, wrap, net, loader):
    weights = []
    for made in (trainer_class() if lightning else Trainer, Trainer):
        torch.manual_seed(0)
        module = net(lambda module: wrap(Optional(module.parameters(), lr=0.1)))
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        fits = made(accelerator="cpu", max_epochs=2, **quiet)
        fits.fit(module, loader(16))
        weights.append([p.detach().clone() for p in module.parameters()])
        assert fits.optimizers[0].given is (made is not Trainer)
    assert all(map(torch.equal, *weights))
