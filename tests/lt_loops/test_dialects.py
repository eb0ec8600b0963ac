"""What lt does not know is asked of the installed dialects; where there is none, an error says what to write."""

import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Callback, CheckpointError, HookError, LightningModule, plugins
from lt_loops import Trainer

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "max_epochs": 2,
    "num_sanity_val_steps": 0,
}
PACKAGE = """
from lt_core import Callback
from lt_core.dialect import NOT_MINE, Dialect


class Pirate(Dialect):
    def attribute(self, owner, name):
        if name == "output.treasure":
            return lambda returned: owner.log_dict(returned["treasure"])
        return ("parrot of", owner) if name == "parrot" else NOT_MINE

    def before_run(self, trainer, module, callbacks):
        if module is None:
            return module, callbacks
        return adapted(module), [*callbacks, Hooks()] if hasattr(module, "ahoy") else callbacks


def adapted(module):
    class Adapted(type(module)):
        def training_step(self, batch):
            return module.training_step(batch) * module.__dict__.get("share", 1.0)

        def __reduce_ex__(self, protocol):
            return adapted, (module,)

    if hasattr(module, "drunk"):
        Adapted.on_train_batch_start = lambda self, batch, index: module.on_train_batch_start(batch, index, "rum")
    if not hasattr(module, "share") and not hasattr(module, "drunk"):
        return module
    made = object.__new__(Adapted)
    object.__setattr__(made, "__dict__", module.__dict__)
    return made


class Hooks(Callback):
    def __init__(self):
        self.seen = []

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.seen.append(index)

    def on_train_epoch_end(self, trainer, module):
        module.ahoy(self.seen)
"""
NAMES = "[lt.compat]\nahoy = {module}:Pirate\n" + "".join(
    f"{name} = {{module}}:Pirate\n" for name in ("parameter.drink", "output.treasure")
)


@pytest.fixture
def pirates(tmp_path, monkeypatch):
    """Install a package that speaks another dialect; return its name."""
    module = f"pirates_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(PACKAGE)
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(NAMES.format(module=module))
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.rescan()
    yield module
    monkeypatch.undo()
    plugins.rescan()


@pytest.fixture
def no_dialect(monkeypatch):
    """Hide every installed dialect, lt-compat too."""
    found = {group: names for group, names in plugins._scan().items() if group != "compat"}
    monkeypatch.setattr(plugins, "_scan", lambda: {**found, "compat": {}})


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(module, **more):
    data = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
    trainer = Trainer(**{**QUIET, **more})
    trainer.fit(module, DataLoader(TensorDataset(data), batch_size=2))
    return trainer


def test_a_run_in_todays_words_imports_no_dialect(pirates):
    fit(Net(), callbacks=Callback())
    assert pirates not in sys.modules


def test_a_callback_of_a_dialect_is_called_before_the_module(pirates):
    class Sails(Net):
        def ahoy(self, seen):
            self.seen = list(seen)

    net = Sails()
    fit(net)
    assert net.seen == [0, 1, 2] * 2


def test_a_parameter_of_a_dialect_is_filled_by_it(pirates):
    class Drinks(Net):
        drunk = None

        def on_train_batch_start(self, batch, batch_idx, drink):
            self.drunk = drink

    net = Drinks()
    fit(net)
    assert net.drunk == "rum"


def test_hooks_and_the_trainer_go_on_showing_the_users_module_and_callbacks(pirates):
    class Drinks(Net):
        drunk = None

        def on_train_batch_start(self, batch, batch_idx, drink):
            self.drunk = drink

    class Watches(Callback):
        def on_train_start(self, trainer, pl_module):
            seen.extend((pl_module, trainer.lightning_module, *trainer.callbacks))

    seen, net, watches = [], Drinks(), Watches()
    trainer = fit(net, callbacks=watches)
    assert [id(one) for one in seen] == [id(net), id(net), id(watches)]
    trainer.max_epochs = 3
    trainer.fit(net, DataLoader(TensorDataset(torch.zeros(6, 2)), batch_size=2))
    assert trainer.global_step == 9  # the same module goes on


def test_a_step_is_the_one_of_the_module_that_a_dialect_returns(pirates):
    net, before = Net(), Net().layer.weight
    net.ahoy, net.share = lambda seen: None, 0.0
    fit(net)
    assert torch.equal(net.layer.weight, before)


def test_what_a_step_returns_for_a_dialect_is_logged(pirates):
    class Finds(Net):
        def training_step(self, batch):
            return {"loss": super().training_step(batch), "treasure": {"gold": 3.0}}

    assert fit(Finds()).callback_metrics == {"gold": 3.0}


@pytest.mark.parametrize("name", ["training_epoch_end", "on_epoch_end", "configure_sharded_model"])
def test_without_a_dialect_a_hook_of_1_x_is_an_error_that_names_the_new_one(no_dialect, name):
    net = Net()
    setattr(net, name, lambda *outputs: None)
    with pytest.raises(HookError, match=rf"Net\.{name} is a hook of Lightning 1\.x.*write \w+.*lt-compat.*LT906"):
        fit(net)


def test_without_a_dialect_a_parameter_of_1_x_is_an_error_that_says_what_to_write(no_dialect):
    class Ends(Net):
        def on_train_epoch_end(self, outputs):
            pass

    class Steps(Net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_idx, optimizer_closure):
            pass

    for kind, name in ((Ends, "outputs"), (Steps, "optimizer_idx")):
        with pytest.raises(HookError, match=rf"{name}.*For '{name}' of Lightning 1\.x write .*lt-compat"):
            fit(kind())


def test_without_a_dialect_what_was_returned_to_be_logged_is_an_error(no_dialect):
    class Logs(Net):
        def training_step(self, batch):
            return {"loss": super().training_step(batch), "log": {"x": 1.0}}

    with pytest.raises(HookError, match=r"'log'.*self\.log_dict.*lt-compat"):
        fit(Logs())


def test_without_a_dialect_a_file_of_another_trainer_is_an_error_that_says_what_reads_it(no_dialect, tmp_path):
    net = Net()
    tree = {"state_dict": net.state_dict(), "optimizer_states": [net.configure_optimizers().state_dict()]}
    torch.save({**tree, "lr_schedulers": [], "epoch": 1, "global_step": 3}, tmp_path / "l.ckpt")
    trainer = Trainer(**QUIET)
    with pytest.raises(CheckpointError, match=r"not written by lt.*checkpoints of Lightning: .*lt-compat"):
        trainer.fit(net, DataLoader(TensorDataset(torch.zeros(6, 2))), ckpt_path=tmp_path / "l.ckpt")


def test_an_attribute_of_the_trainer_or_its_class_is_asked_of_the_dialects(pirates):
    trainer = Trainer(**QUIET)
    assert trainer.parrot == ("parrot of", trainer)
    assert Trainer.parrot == ("parrot of", Trainer)
    with pytest.raises(AttributeError, match="'Trainer' object has no attribute 'hook'"):
        trainer.hook  # noqa: B018


def test_without_a_dialect_a_class_method_of_1_x_says_what_to_write(no_dialect):
    with pytest.raises(AttributeError, match=r"no attribute 'add_argparse_args'\. Write LightningCLI.*lt-compat"):
        Trainer.add_argparse_args  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'fit_loop'\. Its limits and counts"):
        Trainer(**QUIET).fit_loop  # noqa: B018


def test_the_trainer_may_have_an_abstract_class_beside_it():
    from abc import ABC

    class Own(Trainer, ABC):
        pass

    assert Own(**QUIET).max_epochs == 2
