"""The test kit for strategies: six lines in a test file run all checks on 1, 2 and 3 ranks.

::

    import pytest
    from lt_strategies.conformance import StrategyConformance

    class TestMyStrategy(StrategyConformance):
        @pytest.fixture
        def strategy(self):
            return "my_strategy"  # its name in lt.strategies, or a factory without arguments

It needs pytest; with lt-loops and lt-data (``pip install lt-strategies[conformance]``) it also tries the Trainer.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(f"lt_strategies.conformance.{name}" for name in ("bench", "placing", "stepping", "talking", "saving", "training"))
)

from lt_strategies.conformance.kit import StrategyConformance, xfail  # noqa: E402  asserts are rewritten from here on

__all__ = ["StrategyConformance", "xfail"]
