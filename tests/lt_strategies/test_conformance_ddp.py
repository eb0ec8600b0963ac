import pytest
import torch

from lt_testing import StrategyConformance

pytestmark = [pytest.mark.conformance]


class TestDDP(StrategyConformance):
    @pytest.fixture
    def strategy(self):
        torch.optim.SGD([torch.zeros(1)])  # imports what an optimizer needs, once for all forks
        return "ddp"
