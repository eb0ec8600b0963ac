"""Torch's ZeroRedundancyOptimizer beside DDP: the numbers of DDP, and a checkpoint that goes on anywhere."""

import copy

import pytest
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

from lt_core.precision import Precision

pytestmark = pytest.mark.ddp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def training_step(self, batch):
        return self.layers(batch).square().mean()


class Run:
    def __init__(self, strategy, spread):
        made = (lambda ps: ZeroRedundancyOptimizer(ps, torch.optim.AdamW, lr=0.1)) if spread else torch.optim.AdamW
        net = Net()
        self.strategy = strategy
        self.module, (self.optimizer,) = strategy.setup(net, lambda: [made(net.parameters())], Precision())
        self.optimizer.param_groups[0]["lr"] = 0.05  # as a schedule sets it
        self.step = strategy.bind(self.module, "training_step")

    def train(self, *numbers):
        for number in numbers:
            self.optimizer.zero_grad()
            generator = torch.Generator().manual_seed(10 * number + self.strategy.rank)
            self.strategy.backward(self.step(torch.randn(8, 4, generator=generator)))
            self.strategy.clip_gradients(self.module.parameters(), 0.5)
            self.strategy.optimizer_step(self.optimizer)
        return self.saved()

    def saved(self):
        state = self.strategy.optimizer_state(self.module, self.optimizer)
        return copy.deepcopy((self.strategy.module_state(self.module), state))

    def load(self, saved):
        module, optimizer = copy.deepcopy(saved)
        self.module.load_state_dict(module)
        self.strategy.load_optimizer_state(self.module, self.optimizer, optimizer)
        return self


def facts(strategy):
    run = Run(strategy, spread=True)
    middle = run.train(0, 1)
    end = run.train(2, 3)
    saved = strategy.broadcast(middle)
    return {
        "middle": middle,
        "end": end,
        "DDP": [Run(strategy, spread=False).train(0, 1), Run(strategy, spread=False).train(0, 1, 2, 3)],
        "resumed": Run(strategy, spread=True).load(saved).train(2, 3),
        "held": sum(len(entry) for entry in run.optimizer.optim.state.values()),
    }


def assert_same(mine, expected):
    torch.testing.assert_close(mine, expected, rtol=0, atol=0)


@pytest.fixture(scope="module")
def two(ranks):
    return ranks(facts, 2)


def test_weights_are_those_of_ddp_to_the_bit_and_each_rank_holds_a_part_of_the_states(two):
    for rank in two:
        assert_same(rank["end"][0], rank["DDP"][1][0])
    assert [rank["held"] for rank in two] == [3, 9]  # step and two moments: of the largest parameter, of the others


def test_a_checkpoint_holds_the_states_that_one_whole_optimizer_has(two):
    assert_same(two[0]["middle"][1]["state"], two[0]["DDP"][0][1]["state"])
    assert two[1]["middle"][1] == {}  # rank 0 writes


def test_a_resume_equals_not_having_stopped(two):
    assert_same(two[0]["resumed"], two[0]["end"])


def test_it_goes_on_over_another_number_of_ranks(two, ranks):
    middle = two[0]["middle"]

    def facts(strategy):
        return [Run(strategy, spread).load(middle).train(2, 3)[0] for spread in (True, False)]

    for spread, whole in ranks(facts, 3):
        assert_same(spread, whole)
