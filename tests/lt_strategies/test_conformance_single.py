import pytest

from lt_testing import StrategyConformance

pytestmark = [pytest.mark.conformance]


class TestSingle(StrategyConformance):
    """The default of lt-core, which every other strategy inherits: one device, in this process."""

    world_sizes = (1,)

    @pytest.fixture
    def strategy(self):
        return "single"
