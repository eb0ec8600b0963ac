"""Ranks as forked processes of the test, as the tests of lt-strategies have them."""

from tests.lt_strategies.conftest import ranks  # noqa: F401  (a fixture)
