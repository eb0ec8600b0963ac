"""Our profilers on the kit that strangers use; with lt-loops it trains with each of them."""

import pytest

from lt_profilers import AdvancedProfiler, PyTorchProfiler, SimpleProfiler, SpeedProfiler, XLAProfiler
from lt_testing import ProfilerKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class TestSimple(ProfilerKit):
    def make_profiler(self, folder):
        return SimpleProfiler()


class TestSimpleInAFile(ProfilerKit):
    def make_profiler(self, folder):
        return SimpleProfiler(folder, "report")


class TestAdvanced(ProfilerKit):
    def make_profiler(self, folder):
        return AdvancedProfiler(folder, "report", dump_stats=True)


class TestPyTorch(ProfilerKit):
    def make_profiler(self, folder):
        return PyTorchProfiler()


class TestSpeed(ProfilerKit):
    names_all = False  # it reports shares, and callbacks as a whole

    def make_profiler(self, folder):
        return SpeedProfiler()


@pytest.mark.xla
class TestXLA(ProfilerKit):
    def make_profiler(self, folder):
        return XLAProfiler(port=0)
