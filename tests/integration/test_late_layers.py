"""Layers made in ``setup`` or ``configure_model`` without a guard: runs are those of a module with one."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Callback, HookError, LightningModule
from lt_core.errors import ConfigError, LtWarning
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def loader(size=12):
    draw = torch.Generator().manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(size, 4, generator=draw), torch.randn(size, 1, generator=draw)), 4)


def linear(module):
    module.net = nn.Linear(4, 1)


def buffers(module):
    module.net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def shared(module):
    module.net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
    module.net[1].weight = module.net[0].weight


def partly_frozen(module):
    buffers(module)
    module.net[0].requires_grad_(False)


def in_a_part(module):
    module.part = nn.Module()
    module.part.inner = nn.Linear(4, 1)
    module.net = module.part.inner


def plain_tensor(module):
    module.weight = torch.zeros(1, 4, requires_grad=True)
    module.net = lambda x: nn.functional.linear(x, module.weight)


def parametrized(module):
    module.net = parametrizations.weight_norm(nn.Linear(4, 1))


def own_parameter(module):
    module.scale = nn.Parameter(torch.ones(1, 4))
    module.register_buffer("seen", torch.zeros(()))
    module.net = lambda x: (x * module.scale).sum(1, keepdim=True)


def lazy(module):
    module.net = nn.LazyLinear(1)
    module.net(torch.zeros(1, 4))


MAKERS = [linear, buffers, shared, partly_frozen, in_a_part, plain_tensor, parametrized, own_parameter, lazy]


class Late(LightningModule):
    def __init__(self, make, where, guarded=False):
        super().__init__()
        self.make, self.where, self.guarded, self.made = make, where, guarded, False

    def _make(self, where):
        if where == self.where and not (self.guarded and self.made):
            torch.manual_seed(3)
            self.make(self)
            self.made = True

    def setup(self, stage):
        self._make("setup")

    def configure_model(self):
        self._make("configure_model")

    def training_step(self, batch, batch_idx):
        if hasattr(self, "seen"):
            self.seen += 1
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    test_step = validation_step

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0])

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        trained += [value for value in vars(self).values() if isinstance(value, torch.Tensor) and value.requires_grad]
        return torch.optim.SGD(trained, lr=0.1, momentum=0.9)


class Evaluates(Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == 0:
            new_trainer().validate(pl_module, loader(), verbose=False)


def new_trainer(**arguments):
    return Trainer(accelerator="cpu", devices=1, max_epochs=2, **QUIET, **arguments)


def goes_on(trainer, module):
    trainer.max_epochs = 4
    trainer.fit(module, loader())


SECOND = {
    "goes on": goes_on,
    "validate": lambda trainer, module: trainer.validate(module, loader(), verbose=False),
    "test": lambda trainer, module: trainer.test(module, loader(), verbose=False),
    "predict": lambda trainer, module: trainer.predict(module, loader()),
    "by another Trainer": lambda trainer, module: new_trainer().test(module, loader(), verbose=False),
}


def state(module):
    plain = {name: value.detach() for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
    return {**module.state_dict(), **plain}


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("where", ["setup", "configure_model"])
@pytest.mark.parametrize("make", MAKERS)
def test_what_was_trained_is_kept(make, where, second):
    left = []
    for guarded in (True, False):
        module, trainer = Late(make, where, guarded), new_trainer()
        trainer.fit(module, loader())
        if guarded:
            result = SECOND[second](trainer, module)
        else:
            with pytest.warns(LtWarning, match=r"what was trained or loaded is kept.*if getattr\(self.*LT242"):
                same = SECOND[second](trainer, module)
        left.append(state(module))
    assert_same(*left)
    assert str(result) == str(same)


@pytest.mark.parametrize("where", ["setup", "configure_model"])
@pytest.mark.parametrize("make", MAKERS)
def test_an_evaluation_in_a_hook_leaves_the_outer_fit_its_parameters(make, where):
    left = []
    for guarded in (True, False):
        module = Late(make, where, guarded)
        trainer = new_trainer(callbacks=[Evaluates()])
        if guarded:
            trainer.fit(module, loader())
        else:
            with pytest.warns(LtWarning, match="LT242"):
                trainer.fit(module, loader())
        left.append(state(module))
    assert_same(*left)


@pytest.mark.parametrize("where", ["setup", "configure_model"])
@pytest.mark.parametrize("make", MAKERS)
def test_loaded_weights_are_kept(make, where):
    trained = Late(make, where)
    new_trainer().fit(trained, loader())
    module = Late(make, where)
    make(module)
    module.load_state_dict(trained.state_dict())
    if not module.state_dict():
        return  # a plain tensor is in no state dict
    with pytest.warns(LtWarning, match="LT242"):
        new_trainer().test(module, loader(), verbose=False)
    assert_same(module.state_dict(), trained.state_dict())


def test_a_module_from_a_checkpoint_is_tested_with_its_weights(tmp_path):
    class Configured(Late):
        def __init__(self):
            super().__init__(linear, "configure_model")

    module, trainer = Configured(), new_trainer()
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    loaded = Configured.load_from_checkpoint(tmp_path / "a.ckpt")
    with pytest.warns(LtWarning, match="LT242"):
        new_trainer().test(loaded, loader(), verbose=False)
    assert_same(module.state_dict(), loaded.state_dict())


@pytest.mark.parametrize("where", ["setup", "configure_model"])
@pytest.mark.parametrize("make", MAKERS)
def test_a_fit_that_begins_anew_trains_the_new_layers_and_says_so(make, where):
    fresh = Late(make, where)
    new_trainer().fit(fresh, loader())
    module = Late(make, where)
    new_trainer().fit(module, loader())
    with pytest.warns(LtWarning, match=r"trains the new ones, and what was trained or loaded before is gone") as said:
        new_trainer().fit(module, loader())
    assert [str(warning.message) for warning in said if "LT242" in str(warning.message)][1:] == []
    assert_same(state(module), state(fresh))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_new_layers_of_another_shape_are_trained_by_a_fit_that_begins_anew_and_an_error_elsewhere():
    module = Late(lambda module: setattr(module, "net", nn.Linear(4, module.size)), "setup")
    module.size, trainer = 1, new_trainer()
    trainer.fit(module, loader())
    module.size = 2
    with pytest.raises(ConfigError, match=r"net.weight has the shape \(2, 4\) now, and had \(1, 4\)"):
        trainer.test(module, loader(), verbose=False)
    assert module.net.weight.shape == (1, 4)
    with pytest.warns(LtWarning, match="LT242"):
        new_trainer().fit(module, loader())
    assert module.net.weight.shape == (2, 4)


def test_a_resume_says_nothing(tmp_path):
    module, trainer = Late(linear, "setup"), new_trainer()
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    before = state(module)
    trainer.test(module, loader(), ckpt_path=tmp_path / "a.ckpt", verbose=False)
    new_trainer().test(module, loader(), ckpt_path=tmp_path / "a.ckpt", verbose=False)
    assert_same(state(module), {name: value.clone() for name, value in before.items()})


def test_layers_of_a_module_that_was_never_trained_are_those_that_setup_makes():
    module = Late(linear, "setup")
    module.net = nn.Linear(4, 3)  # stands there until setup knows better
    assert new_trainer().predict(module, loader())[0].shape == (4, 1)
    new_trainer().fit(module, loader())


def test_layers_that_hold_the_same_values_are_not_spoken_of():
    module, trainer = Late(linear, "setup"), new_trainer()
    trainer.predict(module, loader())
    module.load_state_dict(module.state_dict())
    trainer.predict(module, loader())


def test_modes_of_parts_stay():
    module, trainer = Late(buffers, "setup"), new_trainer()
    trainer.fit(module, loader())
    module.net[1].eval()
    with pytest.warns(LtWarning, match="LT242"):
        trainer.validate(module, loader(), verbose=False)
    assert [part.training for part in module.net] == [True, False, True]


def test_layers_replaced_by_hand_are_trained_by_a_fit_that_goes_on():
    module, trainer = Late(linear, "setup", guarded=True), new_trainer()
    trainer.fit(module, loader())
    module.net = nn.Linear(4, 1)
    first = module.net.weight.detach().clone()
    with pytest.warns(LtWarning, match="LT244"):
        goes_on(trainer, module)
    assert trainer.global_step == 12
    assert not torch.equal(first, module.net.weight)


def test_no_optimizer_steps_parameters_of_another_module():
    class Wrong(Late):
        def configure_optimizers(self):
            return torch.optim.SGD(nn.Linear(4, 1).parameters(), lr=0.1)

    with pytest.raises(HookError, match="LT333"):
        new_trainer().fit(Wrong(linear, "setup"), loader())
