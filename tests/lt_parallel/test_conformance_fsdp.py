import pytest
import torch

from lt_parallel import FSDP
from lt_testing import StrategyConformance

pytestmark = [pytest.mark.conformance, pytest.mark.fsdp]


class TestFSDP(StrategyConformance):
    @pytest.fixture
    def strategy(self):
        torch.optim.SGD([torch.zeros(1)])  # imports what an optimizer needs, once for all forks
        return "fsdp"


class TestFSDPThatKeepsParametersAfterForward(StrategyConformance):
    world_sizes = (2,)

    @pytest.fixture
    def strategy(self):
        return lambda: FSDP(sharding_strategy="SHARD_GRAD_OP", state_dict_type="sharded")
