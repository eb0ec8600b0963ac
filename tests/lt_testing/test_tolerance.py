"""How far a device may be from the CPU: its sums round otherwise, and an adaptive optimizer makes more of that."""

import pytest
import torch

from lt_core import Environment, Placement, Strategy
from lt_testing.strategy.bench import Bench, SmallNet, sgd
from lt_testing.strategy.stepping import _adam, _adamw

ROUNDING = 1e-6
"""Of a gradient, as a part of its largest element: some times what float32 gives sums in another order."""


@pytest.mark.parametrize(("make", "how"), [(sgd, {}), (_adam, {}), (_adamw, {"steps": 10, "clip": 0.05})])
def test_the_tolerance_that_gpus_are_given_bears_sums_in_another_order(make, how, tmp_path):
    def rounded(gradient):
        return gradient + ROUNDING * gradient.abs().max() * torch.randn(gradient.shape)

    bench, module = Bench(Strategy, Environment(), Placement(), tmp_path, tolerance=1e-4), SmallNet()
    for parameter in module.parameters():
        parameter.register_hook(rounded)
    how = {"steps": 20, **how}
    torch.manual_seed(0)
    mine = bench.plain(module, make, **how).state_dict()
    theirs = bench.plain(SmallNet(), make, **how).state_dict()
    bench.assert_close(mine, theirs)
    assert any(not torch.equal(mine[name], theirs[name]) for name in mine)
