"""Low-bit states of optimizers in a file: made by classes that were declared safe, and by no others."""

import pytest

from lt_core import CheckpointError
from lt_loops.checkpoint.low_bits import with_wrappers


class Trap:
    """Must not be made by a file that names it."""

    made = 0

    def __new__(cls, *args):
        cls.made += 1
        return super().__new__(cls)

    __tensor_unflatten__ = __new__


def test_low_bit_states_of_a_class_that_nobody_declared_are_an_error():
    mark = (["optimizer_states", 0], "tensor", [f"{__name__}.Trap", None, [1], [1]])
    with pytest.raises(CheckpointError, match=r"'.*Trap', which nothing here declared safe.*LT603"):
        with_wrappers({"optimizer_states": [[1]], "lt_types": [mark]})
    assert Trap.made == 0
