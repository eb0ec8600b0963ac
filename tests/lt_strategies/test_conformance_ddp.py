import pytest

from lt_strategies.conformance import StrategyConformance

pytestmark = [pytest.mark.conformance]


class TestDDP(StrategyConformance):
    @pytest.fixture
    def strategy(self):
        return "ddp"
