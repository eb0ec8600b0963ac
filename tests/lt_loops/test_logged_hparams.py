"""Hyperparameters that module and datamodule both save: a logger gets one of each name."""

from argparse import Namespace
from contextlib import nullcontext

import pytest

from lt_core import ConfigError, Logger
from lt_core.data import DataSource
from lt_core.hparams import HyperparametersMixin


class Keeps(Logger):
    def log_hyperparams(self, params):
        self.params = params


@pytest.mark.parametrize("theirs", [3, 4])
@pytest.mark.parametrize("logger", [None, Keeps])
def test_two_values_of_one_name_are_refused_where_a_logger_gets_them(logger, theirs, trainer, net, loader):
    class Data(HyperparametersMixin, DataSource):
        def __init__(self, width):
            super().__init__()
            self.save_hyperparameters()

        def train_dataloader(self):
            return loader()

    module = net()
    module.save_hyperparameters({"width": 3})
    made = trainer(logger=logger() if logger else False)
    wrong = logger is not None and theirs != 3
    with pytest.raises(ConfigError, match="'width', with 3 and 4") if wrong else nullcontext():
        made.fit(module, datamodule=Data(theirs))
    assert made.global_step == (0 if wrong else len(loader()))


def test_loggers_get_the_first_values_of_the_names_that_are_theirs(trainer, net, loader):
    module = net()
    module.save_hyperparameters({"lr": 0.1, "sizes": Namespace(depth=2)})
    module.save_hyperparameters({"secret": 1}, logger=False)
    module.hparams.lr = 0.2
    module.hparams.sizes.depth = 9
    trainer(logger=(logger := Keeps())).fit(module, loader())
    assert logger.params == {"lr": 0.1, "sizes": {"depth": 2}}
