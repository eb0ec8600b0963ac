"""Our graphs on the kit that strangers use, by the stand-in for CUDA's graphs; with lt-loops it trains with them."""

import pytest

from lt_graphs import GraphSteps
from lt_testing import StepKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class TestGraphs(StepKit):
    size = 1

    @pytest.fixture
    def step(self, stand_in):
        return GraphSteps(self.size)

    def make_arguments(self, step):
        return {"step": step}


class TestGraphsOfTwoSteps(TestGraphs):
    size = 2
