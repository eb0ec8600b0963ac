import pickle
from contextlib import nullcontext
from os import PathLike

import pytest
import torch
import yaml

from lt_cli import LightningArgumentParser, LightningCLI, ReduceLROnPlateau, SaveConfigCallback
from lt_core.errors import ConfigError, ConfigTypeError, LtWarning
from lt_core.seed import seed_everything


def run(users, *words, cls=LightningCLI, **options):
    users.Trainer.runs.clear()
    return cls(trainer_class=users.Trainer, args=list(words), **options)


class Names(LightningCLI):
    """Keeps the callbacks as they were written."""

    def instantiate_classes(self):
        self.named = self.config.fit.trainer.callbacks
        self.model = self.datamodule = self.trainer = None

    def _run_subcommand(self, subcommand):
        """Run nothing."""


def test_classes_are_chosen_by_name_and_their_arguments_follow(users):
    cli = run(users, "fit", "--model", "users.Net", "--model.lr", "0.5", "--data", "users.Data", "--data.batch_size=7")
    ((stage, model, given),) = users.Trainer.runs
    assert (stage, type(model), model.lr) == ("fit", users.Net, 0.5)
    assert given["datamodule"].batch_size == 7
    assert cli.subcommand == "fit"


def test_fixed_classes_have_their_arguments_directly(users):
    run(users, "test", "--model.hidden=5", "--ckpt_path=last", model_class=users.Net)
    ((stage, model, given),) = users.Trainer.runs
    assert (stage, model.hidden, given["ckpt_path"], given["datamodule"]) == ("test", 5, "last", None)


def test_files_are_merged_and_the_command_line_comes_last(users, write):
    write("a.yaml", "trainer: {max_epochs: 1, limit: 2}\nmodel: {class_path: users.Net, init_args: {lr: 0.5}}")
    write("b.yaml", "trainer: {max_epochs: 2}")
    cli = run(users, "fit", "--config=a.yaml", "--config=b.yaml", "--model.hidden=9")
    assert (cli.trainer.max_epochs, cli.trainer.limit, cli.model.lr, cli.model.hidden) == (2, 2, 0.5, 9)


@pytest.mark.parametrize(
    "words",
    [
        ("--trainer.callbacks+=stop", "--trainer.callbacks.monitor=loss"),
        ("--trainer.callbacks+", "stop", "--trainer.callbacks.monitor", "loss"),
        ("--trainer.callbacks=stop", "--trainer.limit=2", "--trainer.callbacks.monitor=loss"),
        ("--trainer.callbacks=[{class_path: stop, init_args: {monitor: loss}}]",),
        ("--trainer.callbacks", "[{class_path: stop, init_args: {monitor: loss}}]"),
        ("--config=a.yaml",),
    ],
)
def test_a_plugin_s_name_stands_for_its_class_where_it_is_given_arguments(users, write, stop_plugin, words):
    write("a.yaml", "trainer: {callbacks: [{class_path: stop, init_args: {monitor: loss}}]}")
    given = run(users, "fit", "--model=users.Net", *words).trainer.callbacks
    assert [each.monitor for each in (given if isinstance(given, list) else [given]) if isinstance(each, users.Stop)]


def test_a_plugin_s_name_in_the_environment_stands_for_its_class(users, stop_plugin, monkeypatch):
    monkeypatch.setenv("LT_FIT__TRAINER__CALLBACKS", "[{class_path: stop, init_args: {monitor: loss}}]")
    cli = run(users, "fit", "--model=users.Net", parser_kwargs={"default_env": True})
    assert type(cli.trainer.callbacks[0]) is users.Stop


def test_a_plugin_s_name_without_arguments_stays_a_name(users, stop_plugin):
    cli = run(users, "fit", "--model=users.Net", "--trainer.callbacks+=stop", cls=Names)
    assert cli.named == ["stop"]


def test_a_count_and_a_fraction_stay_what_they_are(users):
    for text, kind in (("2", int), ("0.5", float)):
        assert type(run(users, "fit", "--model=users.Net", f"--trainer.limit={text}").trainer.limit) is kind


def test_the_environment_counts_below_files(users, write, monkeypatch):
    monkeypatch.setenv("LT_FIT__TRAINER__MAX_EPOCHS", "5")
    monkeypatch.setenv("LT_FIT__TRAINER__LIMIT", "6")
    write("a.yaml", "trainer: {max_epochs: 1}")
    words = ("fit", "--config=a.yaml", "--model=users.Net")
    cli = run(users, *words, parser_kwargs={"default_env": True})
    assert (cli.trainer.max_epochs, cli.trainer.limit) == (1, 6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("trainer:\nmodel:\n", ("fit", "--config=a.yaml")),
        ("fit:\n  trainer:\n  model:\n", ("--config=a.yaml", "fit")),
    ],
)
def test_an_empty_section_leaves_the_defaults(text, words, users, write):
    class Defaults(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.set_defaults({"model.lr": 0.7})

    write("a.yaml", text)
    cli = run(users, *words, cls=Defaults, model_class=users.Net, trainer_defaults={"limit": 5})
    assert (cli.trainer.limit, cli.model.lr) == (5, 0.7)


@pytest.mark.parametrize("kind", [str | PathLike[str] | None, PathLike[str] | None, int | PathLike | None])
@pytest.mark.parametrize(
    ("words", "received"), [(("--path=null",), None), (("--config=a.yaml", "--path=null"), None), (("--path=a",), "a")]
)
def test_null_is_no_path(kind, words, received, users, write):
    write("a.yaml", "path: b")
    parser = LightningArgumentParser()
    parser.add_argument("--config", action="config")
    parser.add_argument("--path", type=kind, default="c")
    assert parser.parse_args(list(words)).path == received


def test_without_running_there_are_no_subcommands(users):
    cli = run(users, "--model.lr=0.3", model_class=users.Net, run=False)
    assert (cli.model.lr, cli.subcommand, users.Trainer.runs) == (0.3, None, [])


OF_COMMANDS = {"fit": "ckpt_path", "validate": "verbose", "predict": "return_predictions"}


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("wrote", OF_COMMANDS)
@pytest.mark.parametrize(("reads", "form"), [("fit", "file"), ("test", "file"), (None, "file"), (None, "dict")])
def test_a_file_that_one_command_wrote_serves_another_and_what_is_left_out_is_said(
    wrote, reads, form, given, users, tmp_path
):
    class Trainer(users.Trainer):
        def validate(self, model=None, dataloaders=None, datamodule=None, verbose: bool = True):
            self.run("validate", model)

        def predict(self, model=None, dataloaders=None, datamodule=None, return_predictions: bool | None = None):
            self.run("predict", model)

    def cli(words, **options):
        return LightningCLI(users.Net, trainer_class=Trainer, args=words, **options)

    key = OF_COMMANDS[wrote]
    more = [f"--{key}={'last' if wrote == 'fit' else 'false'}"] if given else []
    cli([wrote, "--model.lr=0.3", *more])
    saved = tmp_path / "config.yaml"
    foreign = reads is None or key != "ckpt_path"
    told = pytest.warns(LtWarning, match=f"{key}: (last|False).*LT527") if given and foreign else nullcontext()
    with told:
        if form == "dict":
            again = cli(yaml.safe_load(saved.read_text()), run=False)
        else:
            again = cli([*filter(None, [reads]), "--config", str(saved)], run=reads is not None)
    assert again.model.lr == 0.3


def test_a_configuration_can_be_given_as_a_dict(users):
    cli = LightningCLI(
        users.Net, trainer_class=users.Trainer, args={"model": {"lr": 0.25}, "trainer": {"max_epochs": 4}}, run=False
    )
    assert (cli.model.lr, cli.trainer.max_epochs) == (0.25, 4)


def test_defaults_of_the_trainer_can_be_changed_and_callbacks_added(users):
    extra = users.Stop("loss")
    cli = run(users, "fit", model_class=users.Net, trainer_defaults={"max_epochs": 8, "callbacks": extra})
    assert cli.trainer.max_epochs == 8
    assert extra in cli.trainer.callbacks


def test_arguments_are_linked(users):
    class Linked(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.link_arguments("data.batch_size", "model.batch_size")

    options = {"model_class": users.Net, "datamodule_class": users.Data}
    assert run(users, "fit", "--data.batch_size=12", cls=Linked, **options).model.batch_size == 12


def test_an_argument_gets_what_an_object_says_of_itself(users):
    class Linked(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.link_arguments("data.batch_size", "model.batch_size", apply_on="instantiate")

    options = {"model_class": users.Net, "datamodule_class": users.Data}
    assert run(users, "fit", "--data.batch_size=12", cls=Linked, **options).model.batch_size == 12


def test_a_subcommand_s_parser_has_options_of_its_own(users, write):
    write("mine.yaml", "model: {lr: 0.75}")
    options = {"fit": {"default_config_files": ["mine.yaml"]}}
    assert run(users, "fit", model_class=users.Net, parser_kwargs=options).model.lr == 0.75


def test_a_subclass_of_the_given_class_can_be_chosen(users):
    options = {"model_class": users.Net, "subclass_mode_model": True}
    assert type(run(users, "fit", "--model=users.WithOptimizer", **options).model) is users.WithOptimizer


def test_seeds_are_left_alone_where_the_default_says_so(users):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    cli = run(users, "--model.lr=0.3", model_class=users.Net, run=False, seed_everything_default=False)
    torch.set_rng_state(state)
    assert torch.equal(cli.model.layer.weight, users.Net().layer.weight)


def test_callbacks_have_arguments_of_their_own(users):
    class Stopping(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.add_lightning_class_args(users.Stop, "stop")
            parser.set_defaults({"stop.monitor": "val_loss"})

    cli = run(users, "fit", "--stop.patience=9", cls=Stopping, model_class=users.Net)
    (stop,) = [callback for callback in cli.trainer.callbacks if isinstance(callback, users.Stop)]
    assert (stop.monitor, stop.patience) == ("val_loss", 9)


def test_hooks_run_around_the_objects_and_the_subcommand(users):
    told = []

    class Telling(LightningCLI):
        def before_instantiate_classes(self):
            told.append(("before objects", hasattr(self, "trainer")))

        def after_instantiate_classes(self):
            told.append(("after objects", hasattr(self, "trainer")))

        def before_fit(self):
            told.append(("before fit", len(users.Trainer.runs)))

        def after_fit(self):
            told.append(("after fit", len(users.Trainer.runs)))

    run(users, "fit", cls=Telling, model_class=users.Net)
    assert told == [("before objects", False), ("after objects", True), ("before fit", 0), ("after fit", 1)]


@pytest.mark.parametrize(
    ("environment", "before", "words", "own", "expected"),
    [
        (None, [], [], None, 0),
        (None, ["--seed_everything=7"], [], None, 0),
        (None, ["--seed_everything=7"], ["--seed_everything=true"], None, 0),
        (None, ["--seed_everything=7"], ["--seed_everything=9"], None, 9),
        ("5", ["--seed_everything=7"], [], None, 5),
        ("5", [], [], None, 5),
        (None, ["--seed_everything=7"], [], 11, 11),
        (None, ["--seed_everything=7"], [], 7, 7),
        (None, [], [], 11, 11),
    ],
)
def test_a_second_command_line_in_a_process_has_the_seed_of_a_first_one(
    users, monkeypatch, environment, before, words, own, expected
):
    for name in ("LT_GLOBAL_SEED", "PL_GLOBAL_SEED", "LT_SEED_WORKERS", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")  # so that what is left here is taken back
        monkeypatch.delenv(name)
    if environment is not None:
        monkeypatch.setenv("PL_GLOBAL_SEED", environment)
    for _ in range(2):
        run(users, "fit", *before, model_class=users.Net)
    if own is not None:
        seed_everything(own)
    for _ in range(2):
        cli = run(users, "fit", *words, model_class=users.Net)
    assert (cli.config["fit"]["seed_everything"], torch.initial_seed()) == (expected, expected)


def test_the_seed_is_set_and_saved(users):
    cli = run(users, "fit", "--seed_everything=11", model_class=users.Net)
    torch.manual_seed(11)
    assert torch.equal(cli.model.layer.weight, users.Net().layer.weight)
    assert cli.config["fit"]["seed_everything"] == 11


# ---- optimizers ------------------------------------------------------------------------------------------------------


def test_an_optimizer_and_a_scheduler_come_from_the_command_line(users):
    words = ("--optimizer=Adam", "--optimizer.lr=0.25", "--lr_scheduler=StepLR", "--lr_scheduler.step_size=3")
    cli = run(users, "fit", "--model=users.Net", *words)
    (optimizer,), (scheduler,) = cli.model.configure_optimizers()
    assert (type(optimizer), optimizer.defaults["lr"], scheduler.step_size) == (torch.optim.Adam, 0.25, 3)
    assert optimizer.param_groups[0]["params"] == list(cli.model.parameters())


def test_a_scheduler_that_waits_for_a_plateau_says_what_it_watches(users):
    words = ("--optimizer=SGD", "--lr_scheduler=lt_cli.ReduceLROnPlateau", "--lr_scheduler.monitor=val_loss")
    made = run(users, "fit", "--model=users.Net", *words).model.configure_optimizers()
    assert isinstance(made["lr_scheduler"]["scheduler"], ReduceLROnPlateau)
    assert made["lr_scheduler"]["monitor"] == "val_loss"


def test_a_model_with_such_an_optimizer_can_be_copied_and_sent(users):
    model = run(users, "fit", "--model=users.Net", "--optimizer=SGD").model
    twin = pickle.loads(pickle.dumps(model))
    assert twin.configure_optimizers().param_groups[0]["params"] == list(twin.parameters())


def test_an_optimizer_over_the_models_own_is_told(users):
    with pytest.warns(LtWarning, match=r"WithOptimizer.configure_optimizers is not used.*LT159"):
        cli = run(users, "fit", "--model=users.WithOptimizer", "--optimizer=Adam")
    assert isinstance(cli.model.configure_optimizers(), torch.optim.Adam)


def test_a_scheduler_without_an_optimizer_is_an_error(users):
    with pytest.raises(ConfigError, match="Give both"):
        run(users, "fit", "--model=users.Net", "--lr_scheduler=StepLR", "--lr_scheduler.step_size=3")


def test_a_fixed_optimizer_class_has_its_arguments_directly(users):
    class Fixed(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.add_optimizer_args(torch.optim.SGD)

    cli = run(users, "fit", "--optimizer.lr=0.75", cls=Fixed, model_class=users.Net)
    assert cli.model.configure_optimizers().defaults["lr"] == 0.75


def test_several_optimizers_for_one_model_must_be_linked(users):
    class Two(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.add_optimizer_args(torch.optim.SGD, "first")
            parser.add_optimizer_args(torch.optim.SGD, "second")

    with pytest.raises(ConfigError, match="link_to"):
        run(users, "fit", "--first.lr=1", "--second.lr=1", cls=Two, model_class=users.Net)


def test_other_classes_are_refused():
    with pytest.raises(ConfigTypeError, match="add_class_arguments"):
        LightningArgumentParser().add_lightning_class_args(torch.nn.Linear, "layer")
    with pytest.raises(ConfigTypeError, match="optimizer or scheduler"):
        LightningArgumentParser().add_optimizer_args(torch.nn.Linear)


# ---- the saved configuration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "command"), [("train.py", "python train.py fit"), ("lt", "lt fit")])
def test_a_written_configuration_says_how_it_is_used(users, monkeypatch, capsys, program, command):
    monkeypatch.setattr("sys.argv", [program])
    with pytest.raises(SystemExit):
        run(users, "fit", "--print_config", model_class=users.Net)
    assert capsys.readouterr().out.startswith(f"# written by lt: {command} --config <this file> repeats the run")


def test_the_configuration_is_saved_with_the_run_and_repeats_it(users, tmp_path):
    run(users, "fit", "--model=users.Net", "--model.lr=0.125", "--trainer.max_epochs=2")
    saved = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert saved["model"]["init_args"]["lr"] == 0.125
    again = run(users, "fit", "--config=config.yaml")
    assert (again.model.lr, again.trainer.max_epochs) == (0.125, 2)
    assert not (tmp_path / "config-1.yaml").exists()


def test_a_file_that_says_something_else_is_kept(users, tmp_path):
    for rate in ("0.5", "0.25"):
        run(users, "fit", "--model=users.Net", f"--model.lr={rate}")
    rates = [
        yaml.safe_load((tmp_path / n).read_text())["model"]["init_args"]["lr"] for n in ("config.yaml", "config-1.yaml")
    ]
    assert rates == [0.5, 0.25]


def test_saving_can_be_turned_off_renamed_and_extended(users, tmp_path):
    told = []

    class Elsewhere(SaveConfigCallback):
        def save_config(self, trainer, pl_module, stage):
            told.append((stage, self.config["model"]["class_path"]))

    options = {"save_config_callback": Elsewhere, "save_config_kwargs": {"config_filename": "mine.yaml"}}
    run(users, "fit", "--model=users.Net", **options)
    assert (tmp_path / "mine.yaml").exists()
    assert told == [("fit", "users.Net")]
    run(users, "fit", "--model=users.Net", save_config_callback=None)
    run(users, "fit", "--model=users.Net", "--trainer.fast_dev_run=true")
    assert not (tmp_path / "config.yaml").exists()


def test_print_config_prints_what_would_run_and_runs_nothing(users, capsys):
    with pytest.raises(SystemExit) as end:
        run(users, "fit", "--model=users.Net", "--model.lr=0.125", "--print_config")
    assert end.value.code == 0
    assert yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]["lr"] == 0.125
    assert users.Trainer.runs == []
