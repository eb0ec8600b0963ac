"""States that hold more than plain data are saved and taken back; what cannot be is said at the first step."""

import warnings
from collections import Counter, defaultdict, deque
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import ModelCheckpoint
from lt_core import Callback, LightningModule
from lt_data import LightningDataModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)

STATE = {
    "best": np.float64(0.5),
    "seen": np.arange(6, dtype=np.int32).reshape(2, 3),
    "recent": deque([np.float32(1), 2.0], maxlen=4),
    "files": defaultdict(list, {"a": [Path("a/b")]}),
    "counts": Counter({np.int64(3): 1}),
    "names": frozenset({"x"}),
}


def assert_is_the_state(found):
    assert {key: type(value) for key, value in found.items()} == {key: type(value) for key, value in STATE.items()}
    assert repr(found) == repr(STATE).replace("np.int64(3)", "3")  # the same key
    assert found["recent"].maxlen == 4


class Net(LightningModule):
    def __init__(self, make=lambda p: torch.optim.SGD(p, 0.1), schedule=None):
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(4, 1)
        self.make, self.schedule, self.found = make, schedule, None

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        optimizer = self.make(self.parameters())
        return [optimizer], [self.schedule(optimizer)] if self.schedule else []

    def on_save_checkpoint(self, checkpoint):
        checkpoint["mine"] = STATE

    def on_load_checkpoint(self, checkpoint):
        self.found = checkpoint["mine"]


class Keeps(Callback):
    def __init__(self, state=STATE):
        self.state, self.found = state, None

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state_dict):
        self.found = state_dict


class Data(LightningDataModule):
    found = None

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.ones(8, 4)), 2)

    state_dict, load_state_dict = Keeps.state_dict, Keeps.load_state_dict
    state = STATE


def fit(folder, module, epochs, *callbacks, ckpt_path=None, data=None):
    saves = ModelCheckpoint(folder, save_last=True)
    trainer = Trainer(accelerator="cpu", max_epochs=epochs, callbacks=[saves, *callbacks], **QUIET)
    trainer.fit(module, datamodule=data or Data(), ckpt_path=ckpt_path)
    return trainer


def test_states_of_callbacks_data_and_module_come_back_as_what_they_were(tmp_path):
    fit(tmp_path, Net(), 1, Keeps())
    file = tmp_path / "last.ckpt"
    assert torch.load(file, weights_only=True)["callbacks"]["Keeps"]["best"] == 0.5
    keeps, data, module = Keeps(), Data(), Net()
    fit(tmp_path, module, 2, keeps, ckpt_path=file, data=data)
    for found in (keeps.found, data.found, module.found):
        assert_is_the_state(found)
    assert_is_the_state(LightningModule.load_from_checkpoint.__func__(Net, file).found)


SETTINGS = {
    "numpy's numbers": lambda p: torch.optim.AdamW(
        p, lr=np.logspace(-3, -1, 3)[1], betas=(np.float64(0.9), np.float64(0.99)), weight_decay=np.float32(0.1)
    ),
    "an array and a path in a group": lambda p: torch.optim.SGD(
        [{"params": p, "scales": np.ones(2), "file": Path("a")}], lr=np.float32(0.1), momentum=np.float64(0.9)
    ),
}
SCHEDULES = {
    "milestones": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, list(np.array([1, 3])), gamma=np.float64(0.5)),
    "numbers": lambda o: torch.optim.lr_scheduler.StepLR(o, np.int64(1), gamma=np.float32(0.5)),
    "several": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.StepLR(o, np.int64(1)), torch.optim.lr_scheduler.MultiStepLR(o, np.array([1]))],
        milestones=[np.int64(2)],
    ),
    "least": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=np.int32(4), eta_min=np.float64(1e-4)),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("make", SETTINGS)
def test_settings_of_numpy_resume_as_one_run(make, schedule, tmp_path):
    whole = fit(tmp_path / "whole", Net(SETTINGS[make], SCHEDULES[schedule]), 4)
    fit(tmp_path, Net(SETTINGS[make], SCHEDULES[schedule]), 2)
    torch.load(tmp_path / "last.ckpt", weights_only=True)
    again = fit(tmp_path, Net(SETTINGS[make], SCHEDULES[schedule]), 4, ckpt_path=tmp_path / "last.ckpt")
    weights = again.lightning_module.state_dict()
    for name, value in whole.lightning_module.state_dict().items():
        assert torch.equal(value, weights[name]), name
    one, other = whole.optimizers[0].param_groups[0], again.optimizers[0].param_groups[0]
    assert {key: type(value) for key, value in one.items()} == {key: type(value) for key, value in other.items()}


class Noted(torch.optim.SGD):
    """Keeps an object beside each parameter that has none yet."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].setdefault("note", object())
        return super().step(closure)


class Odd(torch.optim.lr_scheduler.StepLR):
    """Has an object among its settings."""

    def __init__(self, optimizer):
        self.odd = object()
        super().__init__(optimizer, 1, gamma=0.5)


class Halves:
    """A schedule with settings of its own."""

    def __init__(self):
        self.note = object()

    def __call__(self, epoch):
        return 0.5**epoch


class Extra(torch.nn.Linear):
    """Keeps an object beside its weights."""

    def get_extra_state(self):
        return object()

    def set_extra_state(self, state):
        raise AssertionError("nothing was saved")


def with_extra():
    module = Net()
    module.layer = Extra(4, 1)
    return module


ODD = {
    "the state of the optimizer 0 for the parameter 0": lambda: Net(lambda p: Noted(p, 0.1, momentum=0.9)),
    "'note' of the optimizer 0, group 0": lambda: Net(
        lambda p: torch.optim.SGD([{"params": p, "note": object()}], lr=0.1)
    ),
    "'odd' of the scheduler 0": lambda: Net(schedule=Odd),
    "'lr_lambdas' of the scheduler 0": lambda: Net(schedule=lambda o: torch.optim.lr_scheduler.LambdaLR(o, Halves())),
    "the state of Keeps": Net,
    "'layer._extra_state' of the module": with_extra,
}


@pytest.mark.filterwarnings("ignore:.*LT604")
@pytest.mark.parametrize("part", ODD)
def test_what_cannot_be_saved_is_said_at_the_first_step_and_the_rest_is_saved_and_resumes(part, tmp_path):
    callback, said = Keeps({"a": object()} if "Keeps" in part else {}), []

    class Listens(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if trainer.global_step == 2:
                said.extend(str(each.message) for each in caught)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(tmp_path, ODD[part](), 2, callback, Listens())
    texts = [str(each.message) for each in caught if "LT604" in str(each.message)]
    assert sum(part in text for text in texts) == 1
    if "module" not in part:
        assert any(part in text for text in said)
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert part in saved["gaps"]
    assert saved["state_dict"].keys() >= {"layer.weight", "layer.bias"}
    with pytest.warns(UserWarning, match=r"That begins anew.*LT607"):
        again = fit(tmp_path, ODD[part](), 3, callback, ckpt_path=tmp_path / "last.ckpt")
    assert again.global_step == 12
    if "scheduler" in part:
        assert again.optimizers[0].param_groups[0]["lr"] == 0.1 * 0.5**3
