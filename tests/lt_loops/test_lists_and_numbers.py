"""What other libraries' lists and numbers are to the Trainer: lists and numbers."""

from collections.abc import Sequence

import pytest
import torch

from lt_core import Callback
from lt_core.logger import Logger


class Listed(Sequence):
    """A list of another library, as omegaconf's ``ListConfig``."""

    def __init__(self, *items):
        self.items = items

    def __getitem__(self, index):
        return self.items[index]

    def __len__(self):
        return len(self.items)


def test_any_sequence_of_callbacks_loggers_and_devices_is_a_list_of_them(trainer):
    made = trainer(callbacks=Listed(Callback(), Callback()), logger=Listed(Logger()), devices=Listed(0))
    assert [type(callback) for callback in made.callbacks] == [Callback, Callback]
    assert [type(logger) for logger in made.loggers] == [Logger]
    assert made.num_devices == 1


def test_text_is_a_name_and_no_list_of_letters(trainer):
    with pytest.raises(ValueError, match="Unknown callback 'abc'"):
        trainer(callbacks="abc")


def test_a_list_config_is_a_list(trainer):
    omegaconf = pytest.importorskip("omegaconf")
    callbacks = omegaconf.ListConfig([Callback()], flags={"allow_objects": True})
    assert len(trainer(callbacks=callbacks, devices=omegaconf.ListConfig([0])).callbacks) == 1


def make_with_numpy(module):
    numpy = pytest.importorskip("numpy")
    optimizer = torch.optim.SGD(module.parameters(), lr=numpy.float32(0.1), momentum=numpy.float64(0.5))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, numpy.int64(1), numpy.float32(0.3))
    return [optimizer], [scheduler]


def test_numbers_of_numpy_in_optimizers_and_schedulers_are_saved_and_resume_exactly(
    trainer, net, loader, same, seeded, tmp_path
):
    whole, path = seeded(net, make_with_numpy), tmp_path / "half.ckpt"
    half = trainer(max_epochs=2)
    half.fit(whole, loader())
    half.save_checkpoint(path)
    group = torch.load(path)["optimizer_states"][0]["param_groups"][0]
    assert {type(group["lr"]), type(group["momentum"])} == {float}
    assert {type(value) for value in torch.load(path)["lr_schedulers"][0]["_last_lr"]} == {float}
    half.max_epochs = 4
    half.fit(whole, loader())
    again = net(make_with_numpy)
    trainer(max_epochs=4).fit(again, loader(), ckpt_path=path)
    same(whole, again)
