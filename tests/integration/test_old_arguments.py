"""The Trainer's arguments in the spellings of 1.x: what lt-compat makes of them, and what is said without it."""

import sys
import warnings
from argparse import ArgumentParser, Namespace

import pytest
import torch
from tests import processes
from tests.patience import PATIENCE

from lt_compat.v1.arguments import translate
from lt_core import Callback, ConfigError, ConfigTypeError, LightningModule, LtDeprecationWarning, PluginError, plugins
from lt_loops import Trainer
from lt_loops.arguments.spellings import AsksDialects
from lt_loops.arguments.table import ARGUMENTS, Settings

pytestmark = pytest.mark.filterwarnings("ignore::lt_core.errors.LtDeprecationWarning")

TRANSLATIONS = [
    ({"gpus": 1}, {"accelerator": "gpu", "devices": 1}),
    ({"gpus": 8}, {"accelerator": "gpu", "devices": 8}),
    ({"gpus": -1}, {"accelerator": "gpu", "devices": -1}),
    ({"gpus": [0, 1]}, {"accelerator": "gpu", "devices": [0, 1]}),
    ({"gpus": "0,1"}, {"accelerator": "gpu", "devices": "0,1"}),
    ({"gpus": 0}, {"accelerator": "cpu"}),
    ({"gpus": 1, "accelerator": "gpu"}, {"accelerator": "gpu", "devices": 1}),
    ({"gpus": 2, "accelerator": "auto", "devices": "auto"}, {"accelerator": "gpu", "devices": 2}),
    ({"tpu_cores": 8}, {"accelerator": "tpu", "devices": 8}),
    ({"num_processes": 2}, {"accelerator": "cpu", "devices": 2}),
    ({"gpus": 2, "num_processes": 2}, {"accelerator": "gpu", "devices": 2}),
    ({"accelerator": "ddp", "gpus": 2}, {"accelerator": "gpu", "strategy": "ddp", "devices": 2}),
    ({"accelerator": "ddp_spawn"}, {"accelerator": None, "strategy": "ddp_spawn"}),
    ({"accelerator": "ddp_cpu", "num_processes": 2}, {"accelerator": "cpu", "strategy": "ddp_spawn", "devices": 2}),
    ({"distributed_backend": "ddp", "gpus": 2}, {"accelerator": "gpu", "strategy": "ddp", "devices": 2}),
    ({"checkpoint_callback": False}, {"enable_checkpointing": False}),
    ({"progress_bar_refresh_rate": 0}, {"enable_progress_bar": False}),
    ({"weights_summary": None}, {"enable_model_summary": False}),
    ({"weights_summary": "top"}, {}),
    ({"resume_from_checkpoint": "a.ckpt"}, {"ckpt_path": "a.ckpt"}),
    ({"replace_sampler_ddp": False}, {"use_distributed_sampler": False}),
    ({"reload_dataloaders_every_epoch": True}, {"reload_dataloaders_every_n_epochs": 1}),
    ({"terminate_on_nan": True}, {"detect_anomaly": True}),
    ({"train_percent_check": 0.1}, {"limit_train_batches": 0.1}),
    ({"prepare_data_per_node": False}, {"prepare_data_per_node": False}),
    ({"auto_lr_find": False}, {}),
    ({"track_grad_norm": -1}, {}),
    ({"stochastic_weight_avg": False}, {}),
]


@pytest.mark.parametrize("old, new", TRANSLATIONS, ids=str)
def test_an_old_argument_means_what_it_meant(old, new):
    assert translate(old) == new
    Settings.checked(translate(old))


NOTES = [
    ({"gpus": 2}, "gpus=2 is a spelling of 1.x: write accelerator='gpu', devices=2."),
    ({"accelerator": "ddp"}, "accelerator='ddp' is a spelling of 1.x: write strategy='ddp'."),
    ({"weights_summary": None}, "weights_summary=None is a spelling of 1.x: write enable_model_summary=False."),
    ({"resume_from_checkpoint": "x"}, "write trainer.fit(model, ckpt_path='x')."),
    ({"stochastic_weight_avg": False}, "write callbacks=[StochasticWeightAveraging(swa_lrs=...)]."),
]


@pytest.mark.parametrize("old, note", NOTES, ids=str)
def test_an_old_argument_is_noted_once_with_the_new_spelling(old, note):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translate(old)
    assert [note in str(warning.message) for warning in caught] == [True]
    assert caught[0].category is LtDeprecationWarning


def test_the_notes_can_be_silenced_in_the_same_call():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert translate({"gpus": 1, "silence": ["LT901"]})["devices"] == 1


def test_new_arguments_pass_unchanged_and_without_a_note():
    given = {"accelerator": "cpu", "devices": 2, "precision": "16-mixed", "max_epochs": 3, "gpus": None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert translate(given) == {name: value for name, value in given.items() if name != "gpus"}


FLAGS = [name for name in ARGUMENTS if "bool" in str(Settings.__annotations__[name]) and ARGUMENTS[name].parameter]


@pytest.mark.parametrize("name", FLAGS)
def test_a_number_for_a_flag_is_the_flag_as_in_lightning(name):
    for number in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            written, meant = (Settings.checked({name: value}) for value in (number, bool(number)))
        assert getattr(written, name) == getattr(meant, name)


def test_nothing_is_overfitted_where_overfit_batches_is_false():
    assert Settings.checked({"overfit_batches": False}).overfit_batches == 0


class Stop(Callback):
    """Stands for a ModelCheckpoint or an EarlyStopping."""


@pytest.mark.parametrize("name", ["checkpoint_callback", "early_stop_callback"])
def test_a_callback_given_as_an_argument_joins_the_others(name):
    first, second = Stop(), Stop()
    assert translate({"callbacks": first, name: second}) == {"callbacks": [first, second]}


def test_the_bars_rate_goes_to_the_bar_where_there_is_one(monkeypatch):
    monkeypatch.setattr(plugins, "find", lambda group, name: None)
    assert translate({"progress_bar_refresh_rate": 20}) == {}
    monkeypatch.setattr(plugins, "find", lambda group, name: lambda refresh_rate: (group, name, refresh_rate))
    assert translate({"progress_bar_refresh_rate": 20}) == {"callbacks": [("callbacks", "tqdm_progress_bar", 20)]}


def test_weight_averaging_without_its_package_names_it(monkeypatch):
    monkeypatch.setattr(plugins, "find", lambda group, name: None)
    with pytest.raises(PluginError, match="stochastic_weight_averaging"):
        translate({"stochastic_weight_avg": True})


class Run(metaclass=AsksDialects):
    """Stands for the Trainer: the same arguments, no run."""

    def __init__(
        self,
        *,
        accelerator=None,
        max_epochs=None,
        fast_dev_run: bool | None = None,
        devices=None,
        callbacks=None,
        **old,
    ):
        given = {"accelerator": accelerator, "max_epochs": max_epochs, "fast_dev_run": fast_dev_run, "devices": devices}
        self.settings = Settings.checked(translate({**given, "callbacks": callbacks, **old}))


def parsed(*words, parser=None):
    return Run.add_argparse_args(parser or ArgumentParser()).parse_args(words)


def test_a_command_line_makes_a_trainer():
    settings = Run.from_argparse_args(parsed("--max_epochs", "3", "--fast_dev_run", "--devices", "2")).settings
    assert (settings.given["max_epochs"], settings.fast_dev_run, settings.devices) == (3, True, "2")


def test_a_command_line_takes_dashes_and_old_spellings():
    settings = Run.from_argparse_args(
        parsed("--max-epochs", "3", "--gpus", "0,1", "--weights_summary", "none")
    ).settings
    assert (settings.accelerator, settings.devices, settings.enable_model_summary) == ("gpu", "0,1", False)


def test_a_command_line_takes_an_argument_that_moved_out_of_the_signature(monkeypatch):
    monkeypatch.setattr(Run, "former_arguments", Trainer.former_arguments, raising=False)
    args = parsed("--prepare_data_per_node", "false")
    with pytest.warns(LtDeprecationWarning, match="prepare_data_per_node = False in the datamodule"):
        assert Run.from_argparse_args(args).settings.prepare_data_per_node is False


def test_overrides_come_before_the_command_line():
    callback = Stop()
    made = Run.from_argparse_args(parsed("--max_epochs", "3"), max_epochs=5, callbacks=[callback])
    assert (made.settings.max_epochs, made.settings.callbacks) == (5, [callback])


def test_the_users_own_options_stay_and_are_left_to_the_user():
    parser = ArgumentParser()
    parser.add_argument("--max_epochs", type=int, default=7)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parsed("--lr", "0.5", parser=parser)
    assert (args.max_epochs, args.lr) == (7, 0.5)
    assert Run.from_argparse_args(args).settings.max_epochs == 7


def test_nothing_on_the_command_line_is_the_defaults():
    assert Run.from_argparse_args(parsed()).settings == Settings()


def test_a_namespace_made_by_hand_works_too():
    assert Run.from_argparse_args(Namespace(max_epochs=2, batch_size=32)).settings.max_epochs == 2


def test_default_attributes_lists_the_arguments():
    assert list(Run.default_attributes()) == ["accelerator", "max_epochs", "fast_dev_run", "devices", "callbacks"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Run.add_argparse_args(ArgumentParser()),
        lambda: Run.from_argparse_args(Namespace()),
        Run.default_attributes,
    ],
)
def test_the_old_class_methods_are_noted(call):
    with pytest.warns(LtDeprecationWarning, match=r"is a spelling of 1\.x: use .*\[LT903\]"):
        call()


def test_an_old_and_a_new_argument_that_contradict_are_an_error():
    with pytest.raises(ConfigError, match="gpus=1 .* means devices=1, but devices=2 is given too. Leave gpus=1 out"):
        translate({"gpus": 1, "devices": 2})


class Checks(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch).mean())

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(**arguments):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(accelerator="cpu", max_epochs=1, **quiet, **arguments)


def test_loaders_by_their_names_of_1x_are_read():
    run, data = trainer(), [torch.ones(4, 2), torch.ones(4, 2)]
    with pytest.warns(LtDeprecationWarning, match=r"fit\(train_dataloader=.*write train_dataloaders="):
        run.fit(Checks(), train_dataloader=data)
    assert run.global_step == 2
    with pytest.warns(LtDeprecationWarning, match=r"validate\(val_dataloaders=.*write dataloaders="):
        assert "val" in run.validate(val_dataloaders=data, verbose=False)[0]
    with pytest.warns(LtDeprecationWarning, match=r"test\(test_dataloaders="):
        run.test(test_dataloaders=data, verbose=False)
    with pytest.raises(ConfigError, match="both train_dataloader .* and train_dataloaders"):
        run.fit(Checks(), data, train_dataloader=data)


def test_a_loader_by_a_name_that_never_was_names_the_near_one():
    with pytest.raises(ConfigTypeError, match=r"train_loaders=.* is no argument of fit\(\)\. Did you mean 'train_data"):
        trainer().fit(Checks(), train_loaders=[torch.ones(4, 2)])


def test_an_attribute_that_is_gone_says_what_stands_for_it():
    with pytest.raises(AttributeError, match=r"no attribute 'tune'\. Write Tuner\(trainer\)"):
        _ = trainer().tune
    with pytest.raises(AttributeError, match="has no attribute 'maxepochs'"):
        _ = trainer().maxepochs
    assert not hasattr(trainer(), "lr_schedulers")


@pytest.fixture
def alone(monkeypatch):
    """Have no dialect installed."""
    found = plugins.names
    monkeypatch.setattr(plugins, "names", lambda group: [] if group == "compat" else found(group))


@pytest.mark.usefixtures("alone")
def test_without_lt_compat_an_old_spelling_names_the_new_one_and_who_understands_it():
    with pytest.raises(ConfigTypeError, match=r"gpus=2 .*write accelerator='gpu', devices=.*lt-compat.*\[LT141\]"):
        Trainer(gpus=2)
    with pytest.raises(ConfigTypeError, match=r"train_dataloader=.*Write train_dataloaders=.*lt-compat.*\[LT141\]"):
        trainer().fit(Checks(), train_dataloader=[torch.ones(4, 2)])


def test_lt_compat_is_imported_when_an_old_spelling_appears_and_not_before():
    script = (
        "import sys, warnings, lt\n"
        "lt.Trainer(accelerator='cpu', logger=False, precision=32)\n"
        "print('lt_compat' in sys.modules)\n"
        "lt.Trainer(gpus=0, logger=False)\n"
        "print('lt_compat.v1.arguments' in sys.modules)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = processes.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split() == ["False", "True"]
