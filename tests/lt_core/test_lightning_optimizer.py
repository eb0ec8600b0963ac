"""An optimizer as the user's steps see it, without a Trainer."""

import torch

from lt_core.optimizer import LightningOptimizer


def one():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return parameter, torch.optim.SGD([parameter], lr=0.5)


def test_made_of_an_optimizer_alone_it_steps_as_that_one_does():
    parameter, own = one()
    optimizer = LightningOptimizer(own)
    assert optimizer.optimizer is own
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.step(lambda: 3.0) == 3.0
    with optimizer.toggle_model():
        optimizer.step()
    assert parameter.tolist() == [0.0, 0.0]


def test_a_scheduler_made_with_it_moves_the_rate():
    _, own = one()
    optimizer = LightningOptimizer(own)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    own.step()
    scheduler.step()
    assert own.param_groups[0]["lr"] == 0.05
