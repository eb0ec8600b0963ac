"""What ``ckpt_path="auto"`` goes on from: the newest state, whatever a ModelCheckpoint was asked to keep."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import EarlyStopping, ModelCheckpoint
from lt_core import Callback, LightningModule
from lt_core.errors import LtWarning
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
BEST = {"monitor": "val", "mode": "max"}
"""Of epoch 1."""


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", 1.0 - abs(self.current_epoch - 1) / 10)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Lost(Exception):
    pass


class Machine(Callback):
    """Is lost before a batch is done; counts those of this process."""

    def __init__(self, lost_at):
        self.lost_at, self.batches, self.begun = lost_at, 0, None

    def on_train_start(self, trainer, pl_module):
        self.begun = trainer.global_step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.lost_at:
            raise Lost
        self.batches += 1


def start(folder, saves, lost_at=None, ckpt_path="auto", callbacks=(), **arguments):
    """Train six epochs of four batches, as one process does; return the machine and the weights."""
    torch.manual_seed(0)
    machine, net = Machine(lost_at), Net()
    saves = [ModelCheckpoint(folder, **each) for each in saves]
    settings = {"max_epochs": 6, "accelerator": "cpu", "callbacks": [*saves, *callbacks, machine], **QUIET, **arguments}
    trainer = Trainer(**settings)
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), 2, shuffle=True)
    try:
        trainer.fit(net, loader, loader, ckpt_path=ckpt_path)
    except Lost:
        assert lost_at is not None
    assert not any("last" in path for each in saves for path in each.best_k_models)
    return machine, net.state_dict()


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def step_of(path):
    return torch.load(path, weights_only=True)["global_step"]


STEPS = {"every_n_train_steps": 3}
KINDS = {
    "best": ([BEST], {}, 16),
    "weights of the best": ([{**BEST, "save_weights_only": True}], {}, 16),
    "weights of the best and of the newest": ([{**BEST, "save_weights_only": True, "save_last": True}], {}, 16),
    "weights of the newest": ([{"save_weights_only": True}], {}, 16),
    "weights of all": ([{"save_weights_only": True, "save_top_k": -1}], {}, 16),
    "best every three steps": ([{**BEST, **STEPS}], {}, 18),
    "best by two metrics": ([{**BEST, "every_n_epochs": 3}, {"monitor": "loss", "save_top_k": 2}], {}, 16),
    "best of epochs, best of steps": ([BEST, {"monitor": "loss", **STEPS}], {}, 18),
    "best of seldom validations": ([BEST], {"check_val_every_n_epoch": 2}, 16),
    "best of validations in the epoch": ([BEST], {"val_check_interval": 2}, 18),
    "best, every second epoch": ([{**BEST, "every_n_epochs": 2}], {}, 16),
    "none": ([{"save_top_k": 0}], {}, 16),
    "newest": ([{}], {}, 16),
    "newest every three steps": ([STEPS], {}, 18),
    "all": ([{**BEST, "save_top_k": -1}], {}, 16),
    "best and newest": ([BEST, {}], {}, 16),
    "best and last": ([{**BEST, "save_last": True}], {}, 16),
    "best and a link to the last": ([{**BEST, "save_last": "link"}], {}, 16),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_run_goes_on_at_its_newest_moment_and_a_finished_one_trains_nothing(kind, tmp_path):
    saves, arguments, newest = KINDS[kind]
    whole = start(tmp_path / "whole", saves, **arguments)[1]
    start(tmp_path / "lost", saves, lost_at=19, **arguments)
    machine, resumed = start(tmp_path / "lost", saves, **arguments)
    assert (machine.begun, machine.batches) == (newest, 24 - newest)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert names(tmp_path / "lost") == names(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:.*LT322", "ignore:.*LT516")
@pytest.mark.parametrize("ends", [{}, {"max_steps": 22}, {"max_epochs": 5, "check_val_every_n_epoch": 2}])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "all"])
def test_a_finished_run_that_is_started_again_trains_nothing(kind, ends, tmp_path):
    saves, arguments, _ = KINDS[kind]
    _, weights = start(tmp_path, saves, **{**arguments, **ends})
    before = {name: step_of(tmp_path / name) for name in names(tmp_path)}
    machine, again = start(tmp_path, saves, **{**arguments, **ends})
    assert machine.batches == 0
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert {name: step_of(tmp_path / name) for name in names(tmp_path)} == before


@pytest.mark.parametrize(
    ("kind", "number"), [("best by two metrics", 1), ("newest", 0), ("all", 0), ("best and newest", 0)]
)
def test_a_run_keeps_one_newest_point_and_none_where_a_callback_keeps_it_anyway(kind, number, tmp_path):
    saves, arguments, _ = KINDS[kind]
    start(tmp_path, saves, **arguments)
    assert len([name for name in names(tmp_path) if name.startswith("last")]) == number


@pytest.mark.parametrize("ckpt_path", [None, "last"])
def test_who_does_not_ask_to_go_on_by_itself_gets_the_best_alone(ckpt_path, tmp_path):
    start(tmp_path, [BEST], lost_at=11, ckpt_path=None)
    assert names(tmp_path) == ["epoch=1-step=8.ckpt"]
    start(tmp_path, [BEST], ckpt_path=ckpt_path)
    assert "last.ckpt" not in names(tmp_path)


def test_the_newest_point_is_another_name_of_the_best_where_that_is_the_newest(tmp_path):
    start(tmp_path, [BEST], lost_at=11)
    assert (tmp_path / "last.ckpt").samefile(tmp_path / "epoch=1-step=8.ckpt")
    start(tmp_path, [BEST], lost_at=15)
    assert {name: step_of(tmp_path / name) for name in names(tmp_path)} == {"epoch=1-step=8.ckpt": 8, "last.ckpt": 12}


def test_the_newest_point_holds_everything_where_the_best_holds_weights_only(tmp_path):
    start(tmp_path, [{**BEST, "save_weights_only": True}], lost_at=11)
    has = {name: "optimizer_states" in torch.load(tmp_path / name, weights_only=True) for name in names(tmp_path)}
    assert has == {"epoch=1-step=8.ckpt": False, "last.ckpt": True}


def test_a_run_that_early_stopping_has_ended_stays_ended(tmp_path, capsys):
    def run(patience, **arguments):
        return start(tmp_path, [BEST], callbacks=[EarlyStopping("val", mode="max", patience=patience)], **arguments)

    run(2)
    assert step_of(tmp_path / "last.ckpt") == 16
    machine, _ = run(2)
    assert (machine.begun, machine.batches) == (16, 0)
    assert "Training had ended: val did not get better" in capsys.readouterr().out
    assert run(2, ckpt_path="last")[0].batches == 4


def test_a_higher_limit_goes_on_from_the_end(tmp_path):
    whole = start(tmp_path / "whole", [BEST])[1]
    start(tmp_path / "parts", [BEST], max_steps=10)
    machine, weights = start(tmp_path / "parts", [BEST])
    assert machine.begun == 10
    assert all(torch.equal(whole[name], weights[name]) for name in whole)


def test_a_finished_run_says_what_it_does(tmp_path):
    start(tmp_path, [BEST])
    with pytest.warns(LtWarning, match="fit trains nothing: max_epochs=6 reached"):
        start(tmp_path, [BEST])
