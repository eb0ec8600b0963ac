"""The test kit for strategies: six lines in a test file run all checks on 1, 2 and 3 ranks.

::

    import pytest
    from lt_testing import StrategyConformance

    class TestMyStrategy(StrategyConformance):
        @pytest.fixture
        def strategy(self):
            return "my_strategy"  # its name in lt.strategies, or a factory without arguments

Ranks are started by a launcher of lt-strategies; with lt-loops and lt-data it also tries the Trainer
(``pip install lt-testing[strategy]`` brings all three).
"""

from lt_testing.strategy.conformance import StrategyConformance, xfail

__all__ = ["StrategyConformance", "xfail"]
