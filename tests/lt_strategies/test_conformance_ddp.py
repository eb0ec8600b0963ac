import pytest

from lt_testing import StrategyConformance

pytestmark = [pytest.mark.conformance]


class TestDDP(StrategyConformance):
    @pytest.fixture
    def strategy(self):
        return "ddp"
