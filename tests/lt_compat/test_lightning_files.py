"""Checkpoints that real versions of Lightning wrote continue here where they would have continued there."""

import sys
from pathlib import Path

import pytest
import torch

from lt_core import Callback, LightningModule

FILES = Path(__file__).parent / "lightning"
VERSIONS = sorted(path.name for path in FILES.iterdir() if (path / "one_end.pt").exists())


@pytest.fixture(scope="module")
def made():
    """The net and data of ``make.py``, with lt's names in place of Lightning's."""
    import types

    import lt_core
    import lt_loops

    stand_in = types.ModuleType("lightning.pytorch")
    stand_in.LightningModule, stand_in.Trainer, stand_in.__version__ = lt_core.LightningModule, lt_loops.Trainer, "lt"
    callbacks = types.ModuleType("lightning.pytorch.callbacks")
    callbacks.EarlyStopping = stand_in.Callback = Callback
    parent = types.ModuleType("lightning")
    parent.pytorch = stand_in
    names = {"lightning": parent, "lightning.pytorch": stand_in, "lightning.pytorch.callbacks": callbacks}
    module = types.ModuleType("make")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setitem(sys.modules, name, value)
        exec((FILES / "make.py").read_text(), module.__dict__)
    return module


@pytest.mark.filterwarnings("ignore:.*LT606")  # the callback of that run is not here
@pytest.mark.parametrize("moment", ["epoch", "middle"])
@pytest.mark.parametrize("name", ["one", "accumulated", "two"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_that_lightning_began_ends_with_its_weights(version, name, moment, made, trainer):
    net = made.Net(two=name == "two")
    accumulated = {"accumulate_grad_batches": 2} if name == "accumulated" else {}
    fit = trainer(max_epochs=3, **accumulated)
    fit.fit(net, made.data(), ckpt_path=FILES / version / f"{name}_{moment}.ckpt")
    assert (fit.current_epoch, fit.global_step) == (3, 15 if accumulated else 30)
    end = torch.load(FILES / version / f"{name}_end.pt", weights_only=True)
    for key, value in net.state_dict().items():
        torch.testing.assert_close(value, end[key], rtol=1e-6, atol=1e-7, msg=key)


@pytest.mark.parametrize("version", VERSIONS)
def test_weights_and_hyperparameters_of_lightning_load(version, made):
    net = made.Net.load_from_checkpoint(FILES / version / "one_epoch.ckpt")
    assert dict(net.hparams) == {"width": 3, "two": False}
    assert (
        torch.load(FILES / version / "one_epoch.ckpt", weights_only=False)["state_dict"].keys()
        == net.state_dict().keys()
    )


@pytest.mark.parametrize("name", ["one", "accumulated", "two"])
def test_our_counters_are_those_that_lightning_writes(name, made, trainer, tmp_path):
    class Saves(Callback):
        batches = 0

        def on_train_batch_end(self, trainer, *args):
            self.batches += 1
            if moment := {10: "epoch", 14: "middle"}.get(self.batches):
                trainer.request_save(tmp_path / f"{name}_{moment}.ckpt")

    accumulated = {"accumulate_grad_batches": 2} if name == "accumulated" else {}
    trainer(max_epochs=3, callbacks=[Saves()], **accumulated).fit(made.Net(two=name == "two"), made.data())
    for moment in ("epoch", "middle"):
        ours, theirs = (
            torch.load(folder / f"{name}_{moment}.ckpt", weights_only=True) for folder in (tmp_path, FILES / "2.6.6")
        )
        assert ours["epoch"] == theirs["epoch"]
        assert ours["loops"].keys() == theirs["loops"].keys()  # that of the stage is read, and must be there
        mine, other = ours["loops"]["fit_loop"], theirs["loops"]["fit_loop"]
        for key in ("epoch_progress", "epoch_loop.batch_progress", "epoch_loop.state_dict"):
            assert mine[key] == other[key], (moment, key)
        automatic, manual = "epoch_loop.automatic_optimization.", "epoch_loop.manual_optimization."
        assert mine[manual + "optim_step_progress"] == other[manual + "optim_step_progress"]
        steps = [loops[automatic + "optim_progress"]["optimizer"]["step"]["total"] for loops in (mine, other)]
        assert steps[0] == steps[1]


@pytest.mark.parametrize("key", ["hparams", "module_arguments"])
def test_hyperparameters_of_a_file_from_before_1_0_are_understood(key, tmp_path):
    class Net(LightningModule):
        def __init__(self, width):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 2)

    tree = {"state_dict": Net(3).state_dict(), key: {"width": 3}, "hparams_type": "Namespace"}
    torch.save(tree, tmp_path / "old.ckpt")
    assert Net.load_from_checkpoint(tmp_path / "old.ckpt").hparams.width == 3
