"""The kit says what every strategy must do; the rest is local SGD's own."""

import pytest
import torch
from lt_strategy_localsgd import LocalSGD
from torch import nn

from lt_core import plugins
from lt_core.errors import ConfigError
from lt_core.launcher import RunResult
from lt_core.precision import Precision
from lt_core.strategy import Placement
from lt_testing import StrategyConformance


class TestLocalSGD(StrategyConformance):
    @pytest.fixture
    def strategy(self):
        return "localsgd"


def drifted(every, steps):
    """Take steps on different data on two ranks; return the weights of each."""
    strategy = LocalSGD(every)
    strategy.place(Placement(devices=(0, 1), launcher=plugins.load("launchers", "fork")()))

    def run():
        strategy.open()
        module, (optimizer,) = strategy.setup(layer := nn.Linear(2, 1), lambda: [sgd(layer)], Precision())
        for _ in range(steps):
            optimizer.zero_grad()
            strategy.backward(module(torch.ones(1, 2) * (strategy.rank + 1)).sum())
            strategy.optimizer_step(optimizer)
        weights = strategy.gather_objects(module.weight.detach())
        strategy.close()
        return RunResult(outputs=weights)

    return strategy.launch(run).outputs


def sgd(layer):
    return torch.optim.SGD(layer.parameters(), lr=0.1)


def test_ranks_differ_between_two_averages_and_agree_after_one():
    first, second = drifted(every=3, steps=2)
    assert not torch.equal(first, second)
    first, second = drifted(every=3, steps=3)
    assert torch.equal(first, second)


def test_the_trainer_trains_with_it_by_name(tmp_path):
    trainer = plugins.load("trainers", "default")(
        strategy="localsgd",
        accelerator="cpu",
        devices=2,
        plugins=[plugins.load("launchers", "fork")()],
        max_steps=8,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    from lt_testing.strategy.training import Lit

    module = Lit()
    before = module.net.head.weight.detach().clone()
    data = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.randn(64, 3))
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4))
    assert trainer.global_step == 8
    assert not torch.equal(module.net.head.weight, before)


def test_a_period_of_no_step_is_refused():
    with pytest.raises(ConfigError, match="1 step or more"):
        LocalSGD(every=0)
