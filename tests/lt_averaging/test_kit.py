"""Our callbacks on the kit that strangers use; with lt-loops it trains with each of them."""

import pytest

from lt_averaging import EMAWeightAveraging, ScheduleFree
from lt_testing import CallbackKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class TestEMAWeightAveraging(CallbackKit):
    observes = False  # the averages are the module's weights at the end

    def make_callback(self, folder):
        return EMAWeightAveraging(decay=0.9)


class TestScheduleFree(CallbackKit):
    def make_callback(self, folder):
        return ScheduleFree()
