"""Tests that every accelerator must pass: subclass :class:`AcceleratorKit` and let pytest run it.

::

    class TestMyAccelerator(AcceleratorKit):
        def make_accelerator(self):
            return MyAccelerator()

Tests that need a device are skipped where there is none; all others hold on any machine.
"""

import math
from typing import Any, ClassVar

import pytest
import torch

from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.errors import ConfigError, ConfigTypeError
from lt_core.files.plain_data import is_plain
from lt_testing.kit import Kit
from lt_testing.training import copies

__all__ = ["AcceleratorKit"]


class AcceleratorKit(Kit):
    """Tests of the :class:`~lt_core.accelerator.Accelerator` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        registered: whether an installed package provides it by its name.
    """

    registered: ClassVar[bool] = True

    def make_accelerator(self) -> Accelerator:
        """Return a new accelerator."""
        raise NotImplementedError(f"{type(self).__name__} must define make_accelerator()")

    # ---- anywhere ----------------------------------------------------------------------------------------------------

    def test_its_name_finds_it(self) -> None:
        accelerator = self.make_accelerator()
        if not self.registered:
            self.skip("registered is False")
        assert isinstance(plugins.load("accelerators", accelerator.name)(), type(accelerator))

    def test_it_says_why_it_is_not_available(self) -> None:
        accelerator = self.make_accelerator()
        assert accelerator.available() or accelerator.unavailable_reason()

    def test_it_is_available_where_devices_are_counted(self) -> None:
        accelerator = self.make_accelerator()
        count = accelerator.count()
        assert accelerator.available() is (count is None or count > 0)
        assert accelerator.count() == count

    def test_asking_leaves_the_driver_uninitialised(self) -> None:
        accelerator = self.make_accelerator()
        before = _initialised(accelerator)
        accelerator.available(), accelerator.unavailable_reason(), accelerator.count()
        if accelerator.available():
            accelerator.parse_devices("auto")
        assert _initialised(accelerator) is before, "ranks can no longer be forked from this process"

    def test_a_device_has_torch_s_type(self) -> None:
        accelerator = self.make_accelerator()
        assert accelerator.torch_device(0).type == accelerator.device_type

    def test_two_devices_of_one_index_are_the_same(self) -> None:
        """And those of two indices are not, where torch tells them apart."""
        accelerator = self.make_accelerator()
        assert accelerator.torch_device(0) == self.make_accelerator().torch_device(0)
        if accelerator.device_type != "cpu" and (accelerator.count() or 0) > 1:
            assert accelerator.torch_device(0) != accelerator.torch_device(1), "two ranks on one device"

    def test_it_can_be_copied_and_pickled(self) -> None:
        accelerator = self.make_accelerator()
        for other in copies(accelerator):
            assert (other.name, other.device_type) == (accelerator.name, accelerator.device_type)

    def test_counts_below_one_are_errors(self) -> None:
        for devices in (0, -2, "0", "-3", [], [-1], ""):
            self._refused(devices, ConfigError)

    def test_what_is_no_count_is_an_error(self) -> None:
        for devices in (1.5, True, None, {"a": 1}, ["0"], object()):
            self._refused(devices, ConfigTypeError)

    def test_the_error_says_what_was_given_and_what_is_expected(self) -> None:
        text = self._refused("many", ConfigError)
        assert "'many'" in text
        assert "'auto'" in text

    def test_more_devices_than_there_are_is_an_error_that_counts_them(self) -> None:
        assert str(self._limit()) in self._refused(self._limit() + 1, ConfigError)

    def test_an_index_that_is_not_there_is_an_error(self) -> None:
        assert str(self._limit()) in self._refused([self._limit()], ConfigError)

    # ---- with a device -----------------------------------------------------------------------------------------------

    def test_counts_indices_and_strings_mean_the_same(self) -> None:
        accelerator = self._available()
        for devices in (1, "1", [0], (0,), "0,"):
            assert accelerator.parse_devices(devices) == [0]

    def test_auto_takes_its_own_number_and_minus_one_takes_all(self) -> None:
        accelerator = self._available()
        every = list(range(accelerator.count() or 1))
        assert accelerator.parse_devices(every[::-1]) == every[::-1], "in the user's order"
        wanted = every if accelerator.auto_devices == -1 else list(range(accelerator.auto_devices))
        assert accelerator.parse_devices("auto") == wanted
        assert accelerator.parse_devices(-1) == accelerator.parse_devices("-1") == every

    def test_a_repeated_index_is_an_error(self) -> None:
        self._available()
        self._refused([0, 0], ConfigError)

    def test_an_opened_device_computes(self) -> None:
        accelerator = self._available()
        device = accelerator.torch_device(0)
        accelerator.open(device)
        accelerator.open(device)
        assert (torch.ones(3, device=device) * 2).sum().item() == 6.0
        state, drawn = accelerator.generator_state(), torch.rand(3, device=device)
        if state is not None:
            assert is_plain(state)
            accelerator.restore_generator(state)
            assert torch.equal(torch.rand(3, device=device), drawn), "a resumed run would draw other numbers"
        accelerator.close()
        accelerator.close()

    def test_statistics_are_finite_numbers_by_name(self) -> None:
        accelerator = self._available()
        device = accelerator.torch_device(0)
        accelerator.open(device)
        for name, value in accelerator.stats(device).items():
            assert isinstance(name, str)
            assert isinstance(value, float)
            assert math.isfinite(value)

    # ------------------------------------------------------------------------------------------------------------------

    def _available(self) -> Accelerator:
        accelerator = self.make_accelerator()
        if not accelerator.available():
            self.skip(accelerator.unavailable_reason())
        return accelerator

    def _limit(self) -> int:
        count = self.make_accelerator().count()
        if count is None:
            self.skip("has no limit")
        return count or 0

    def _refused(self, devices: Any, kind: type[Exception]) -> str:
        with pytest.raises(kind) as refused:
            self.make_accelerator().parse_devices(devices)
        return str(refused.value)


def _initialised(accelerator: Accelerator) -> bool:
    """Return whether torch has started this kind of device in this process."""
    ask = getattr(getattr(torch, accelerator.device_type, None), "is_initialized", None)
    return bool(ask and ask())
