"""Strategies written before an argument came to the interface go on working."""

import warnings

import pytest
import torch

from lt_core.errors import LtWarning
from lt_core.older import untaken
from lt_core.strategy import Strategy


class Old(Strategy):
    """Its members are those of an earlier interface."""

    def backward(self, loss):
        loss.backward()

    def clip_gradients(self, params, value):
        return super().clip_gradients(params, value)


class Current(Strategy):
    def backward(self, loss, *args, **kwargs):
        super().backward(loss, *args, **kwargs)

    def barrier(self, name=""):
        """As it is."""


def test_what_an_older_class_does_not_take_is_dropped_and_said_once():
    weight = torch.ones((), requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            Old().backward(weight * 2, retain_graph=True)
    assert weight.grad == 4
    (warning,) = [w for w in caught if isinstance(w.message, LtWarning)]
    assert "Old.backward() was written for an older interface and does not take retain_graph" in str(warning.message)


def test_positional_arguments_are_dropped_too():
    weight = torch.ones((), requires_grad=True)
    with pytest.warns(LtWarning, match="does not take 'norm'"):
        Old().clip_gradients([weight], 1.0, "norm")


def test_a_class_that_takes_everything_is_left_bare():
    assert Current.backward.__name__ == "backward"
    assert not hasattr(Current.backward, "__wrapped__")
    assert untaken(Current, Strategy) == {}
