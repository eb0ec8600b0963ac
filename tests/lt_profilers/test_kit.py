"""Our callbacks on the kit that strangers use; with lt-loops it trains with each of them."""

import pytest

import lt_profilers as cb
from lt_core import Logger
from lt_testing import CallbackKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class TestNaNGuard(CallbackKit):
    def make_callback(self, folder):
        return cb.NaNGuard()


class TestSpikeDetection(CallbackKit):
    def make_callback(self, folder):
        return cb.SpikeDetection()


class TestThroughputMonitor(CallbackKit):
    resumes = False  # it measures time
    arguments = {"logger": Logger()}  # noqa: RUF012  (typed in the kit)

    def make_callback(self, folder):
        return cb.ThroughputMonitor(batch_size_fn=len)


class TestSlowRankMonitor(CallbackKit):
    resumes = False  # it measures time

    def make_callback(self, folder):
        return cb.SlowRankMonitor(every_n_batches=2)


class TestGarbageCollection(CallbackKit):
    def make_callback(self, folder):
        return cb.GarbageCollection(every_n_batches=1)
