"""Strategies written before an argument came to the interface go on working."""

import warnings

import pytest
import torch

from lt_core.accelerator import Accelerator
from lt_core.checkpoint import CheckpointIO
from lt_core.data import Feed
from lt_core.environment import Environment
from lt_core.errors import ConfigError, LtWarning
from lt_core.interface import Interface, untaken
from lt_core.launcher import Launcher
from lt_core.logger import Logger
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.strategy import Strategy


class Old(Strategy):
    """Its members are those of an earlier interface."""

    def backward(self, loss):
        loss.backward()

    def clip_gradients(self, params, value):
        return super().clip_gradients(params, value)

    def optimizer_step(self, optimizer):
        optimizer.step()
        return True

    def load_checkpoint(self, io, path):
        return io.load_checkpoint(path)

    def barrier(self):
        pass


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


def test_a_default_value_is_dropped_in_silence():
    weight = torch.ones((), requires_grad=True)
    Old().clip_gradients([weight], 1.0, "norm")
    Old().clip_gradients([weight], 1.0, algorithm="norm")


def test_what_would_change_the_numbers_is_an_error_instead():
    with pytest.raises(ConfigError, match=r"does not take algorithm='value'; without it the numbers would be wrong"):
        Old().clip_gradients([torch.ones((), requires_grad=True)], 1.0, "value")
    with pytest.raises(ConfigError, match="does not take closure=<function"):
        Old().optimizer_step(None, lambda: None)
    with pytest.raises(ConfigError, match="does not take inputs="):
        Old().backward(torch.ones((), requires_grad=True) * 2, inputs=[])


def test_a_class_that_takes_everything_is_left_bare():
    assert Current.backward.__name__ == "backward"
    assert not hasattr(Current.backward, "__wrapped__")
    assert untaken(Current, Strategy) == {}


class OldLogger(Logger):
    def log_hyperparams(self, params):
        self.params = params


def test_every_interface_goes_on_with_plug_ins_that_take_less():
    for interface in (Accelerator, CheckpointIO, Environment, Feed, Launcher, Logger, Precision, Profiler, Strategy):
        assert Interface in interface.__bases__
    logger = OldLogger()
    with pytest.warns(LtWarning, match=r"OldLogger.log_hyperparams\(\) was written for an older interface"):
        logger.log_hyperparams({"lr": 1}, metrics={"loss": 2.0})
    assert logger.params == {"lr": 1}
