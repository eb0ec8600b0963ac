"""Modules may be generic, in any order of their parents."""

from abc import ABC
from typing import Generic, TypeVar

import pytest

from lt_core import LightningModule

T = TypeVar("T")


class First(ABC, Generic[T], LightningModule):  # noqa: PYI059 what is tested
    pass


class Last(LightningModule, Generic[T]):
    pass


class Passed(LightningModule[T]):
    pass


class Both(Generic[T], LightningModule[T]):  # noqa: PYI059 what is tested
    pass


@pytest.mark.parametrize("kind", [First, Last, Passed, Both, LightningModule])
def test_a_generic_module_can_be_made_and_subclassed(kind):
    class Net(kind[int]):
        pass

    assert isinstance(Net(), kind)
    assert isinstance(kind[int](), kind)
    assert issubclass(Net, LightningModule)
