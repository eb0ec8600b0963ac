"""What a user is told of a mistake: the file, the line, the key, what was expected and what was probably meant."""

import json
import sys
import types

import pytest
import torch

from lt_cli import LightningArgumentParser, LightningCLI
from lt_cli.config.complaints import explain, with_places
from lt_cli.config.places import ConfigPlaces
from lt_core import LightningModule

NET = "--model=users.Net"

NO_PLUGIN = {
    "in a file": ("trainer:\n  callbacks:\n    - class_path: stopp\n", (), ["run.yaml:3: trainer.callbacks.0"]),
    "with an argument": (
        "{}\n",
        ("--trainer.callbacks+=stopp", "--trainer.callbacks.monitor=x"),
        ["command line: trainer.callbacks"],
    ),
}


SECTION = "expected its arguments, or a file that holds them, received "
LOOSE = "expected --NAME VALUE or --NAME=VALUE. Write --"

MISTAKES = {
    "a file without its option": ("{}\n", (NET, "other.yaml"), [f"'other.yaml': {LOOSE}config other.yaml. [LT777]"]),
    "a checkpoint without its option": ("{}\n", (NET, "a.ckpt"), [f"'a.ckpt': {LOOSE}ckpt_path a.ckpt. [LT777]"]),
    "an argument without dashes": (
        "{}\n",
        (NET, "trainer.max_epochs=3"),
        [f"'trainer.max_epochs=3': {LOOSE}trainer.max_epochs=3. [LT777]"],
    ),
    "an argument without dashes and its group": (
        "{}\n",
        (NET, "max_epochs=3"),
        [f"'max_epochs=3': {LOOSE}trainer.max_epochs=3. [LT777]"],
    ),
    "an argument of the Trainer without its group": (
        "{}\n",
        (NET, "--max_epochs=3"),
        ["command line: max_epochs", "Did you mean '--trainer.max_epochs'?", "LT153"],
    ),
    "an argument of another trainer": (
        "trainer:\n  epochs: 3\n",
        (NET,),
        ["run.yaml:2: trainer.epochs", "Write max_epochs=3.", "LT153"],
    ),
    "a flag of another trainer that is off": (
        "trainer:\n  fp16: false\n",
        (NET,),
        ["run.yaml:2: trainer.fp16", "Leave it out. [LT153]"],
    ),
    "a run to resume": (
        "trainer:\n  resume: true\n",
        (NET,),
        ["run.yaml:2: trainer.resume", "--ckpt_path auto for lt fit. [LT153]"],
    ),
    "a misspelt argument of the Trainer": (
        "trainer:\n  limit: 1\n  max_epocs: 3\n",
        (NET,),
        ["run.yaml:3: trainer.max_epocs", "Did you mean 'max_epochs'?", "LT153"],
    ),
    "an argument that is cut off": (
        "{}\n",
        (NET, "--trainer.max_epoch", "3"),
        ["command line: trainer.max_epoch", "Did you mean 'max_epochs'?", "LT153"],
    ),
    "a value of the wrong type": (
        "trainer:\n  max_epochs: three\n",
        (NET,),
        ["run.yaml:2: trainer.max_epochs", "expected int or null", "received three", "LT152"],
    ),
    "a misspelt argument of the model": (
        "model:\n  class_path: users.Net\n  init_args:\n    lr: 0.1\n    hiden: 3\n",
        (),
        ["run.yaml:5: model.init_args.hiden", "users.Net has no argument 'hiden'", "Did you mean 'hidden'?"],
    ),
    "a wrong value of the model": (
        "model:\n  class_path: users.Net\n  init_args:\n    lr: fast\n",
        (),
        ["run.yaml:4: model.init_args.lr", "expected float, received fast"],
    ),
    "a class that is not in its module": (
        "model:\n  class_path: users.Nett\n",
        (),
        ["run.yaml:", "there is no class 'Nett' in users", "Did you mean 'Net'?", "LT154"],
    ),
    "a module that is not there": (
        "model: usrs.Net\n",
        (),
        ["run.yaml:1: model", "No module named 'usrs'. Did you mean 'users'?", "LT154"],
    ),
    "a class without its module": (
        "{}\n",
        ("--model=NetOfNowhere",),
        ["A class is named with its module: my_package.NetOfNowhere."],
    ),
    "an argument of a callback in a list": (
        "trainer:\n  callbacks:\n    - class_path: users.Stop\n      init_args:\n        monitr: loss\n",
        (NET,),
        ["run.yaml:5: trainer.callbacks.0.init_args.monitr", "Did you mean 'monitor'?"],
    ),
    "a key at the top": ("modle: 3\n", (NET,), ["run.yaml:1: modle", "Did you mean 'model'?"]),
    "text that is no YAML": (
        "trainer:\n  max_epochs: [3\n",
        (NET,),
        ["run.yaml:3:", "not valid YAML", "LT156"],
    ),
    "a tag that would run code": (
        "model: !!python/object/apply:os.system ['touch hacked']\n",
        (),
        ["run.yaml:1:", "plain data", "LT156"],
    ),
    "a misspelt option": ("{}\n", (NET, "--trainer.max_epocs=3"), ["command line: trainer.max_epocs", "'max_epochs'?"]),
    "a value on the command line": (
        "{}\n",
        (NET, "--model.lr=x"),
        ["command line: model.lr", "expected float, received x"],
    ),
    "a class by a misspelt short name": (
        "{}\n",
        (NET, "--optimizer=Adm"),
        ["command line: optimizer", "Did you mean 'Adam'?"],
    ),
    "nothing given": ("{}\n", (), ["missing: --model", "files read: run.yaml", "LT155"]),
    "a file that is not there": (
        "{}\n",
        ("--config=rum.yaml",),
        ["no file 'rum.yaml'", "Did you mean 'run.yaml'?", "LT157"],
    ),
}


MISTAKES |= {
    "an argument that a callback lacks": (
        "{}\n",
        (NET, "--trainer.callbacks+=users.Stop"),
        ["missing: --trainer.callbacks.monitor, which users.Stop needs", "LT155"],
    ),
    "a wrong value in a class inside the model": (
        "{}\n",
        ("--model=nested.Outer", "--model.inner=users.Stop", "--model.inner.patience=x"),
        ["error: command line: model.inner.patience: expected int, received x. [LT152]\n"],
    ),
    "an argument that a class inside the model lacks": (
        "{}\n",
        ("--model=nested.Outer", "--model.inner=users.Stop"),
        ["missing: --model.inner.monitor, which users.Stop needs"],
    ),
    "a value that a constructor refuses": (
        "trainer:\n  callbacks:\n  - class_path: nested.Picky\n    init_args:\n      mode: 8\n",
        (NET,),
        ["error: Picky(mode=8): expected 1. [LT175]\n  run.yaml:5: trainer.callbacks.0.init_args.mode\n"],
    ),
}
FOUR = """trainer:
  callbacks:
  - {class_path: users.Stop, init_args: {monitor: a}}
  - {class_path: users.Stopp, init_args: {monitor: b}}
  - {class_path: users.Stop, init_args: {monitor: c}}
  - {class_path: users.Stop, init_args: {monitor: d}}
"""
MISTAKES |= {
    "one unknown class among four": (
        FOUR,
        (NET,),
        ["run.yaml:4: trainer.callbacks.1: there is no class 'Stopp' in users. Did you mean 'Stop'?"],
    ),
    "a class of a package that is not here": (
        FOUR.replace("users.Stopp", "far.away.Stop"),
        (NET,),
        ["run.yaml:4: trainer.callbacks.1: there is no class 'far.away.Stop': No module named 'far'."],
    ),
    "one item of a list": (
        "optimizer:\n  class_path: torch.optim.Adam\n  init_args: {betas: [0.9, x]}\n",
        (NET,),
        ["run.yaml:3: optimizer.init_args.betas.1: expected tuple[float", "received x. [LT152]"],
    ),
    "an argument of a class by its bare name": (
        "{}\n",
        (NET, "--optimizer=Adam", "--optimizer.lrr=1"),
        ["command line: optimizer.lrr: Adam has no argument 'lrr'. Did you mean 'lr'?"],
    ),
    "an argument of a class that has none": (
        "trainer:\n  callbacks:\n    - class_path: users.Bare\n      init_args: {x: 1}\n",
        (NET,),
        ["run.yaml:4: trainer.callbacks.0.init_args.x: users.Bare has no argument 'x'. [LT153]"],
    ),
    "what such a class needs, but for what a model gives": (
        "{}\n",
        (NET, "--lr_scheduler=CosineAnnealingLR"),
        ["missing: --lr_scheduler.T_max, which CosineAnnealingLR needs."],
    ),
    "a number for a section": ("trainer: 3\n", (NET,), [f"run.yaml:1: trainer: {SECTION}3. [LT152]"]),
    "a list for a section": ("trainer: []\n", (NET,), [f"run.yaml:1: trainer: {SECTION}"]),
    "a section's file that is not there": (
        "{}\n",
        (NET, "--trainer=no.yaml"),
        [f"command line: trainer: {SECTION}no.yaml. [LT152]"],
    ),
    "an option whose value was forgotten": (
        "{}\n",
        ("--trainer.max_epochs", NET),
        ["command line: trainer.max_epochs: expected int or null, received ''."],
    ),
}
NESTED = """
from lt_core.callback import Callback
from lt_core.errors import ConfigError
import users


class Outer(users.Net):
    def __init__(self, inner: Callback):
        super().__init__()


class Picky(Callback):
    def __init__(self, mode: int = 1):
        if mode != 1:
            raise ConfigError(f"Picky(mode={mode}): expected 1.", code="LT175")
"""


@pytest.mark.parametrize(("text", "words", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_its_place(text, words, told, users, write, capsys, tmp_path):
    write("run.yaml", text)
    write("nested.py", NESTED)
    with pytest.raises(SystemExit) as end:
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", *words])
    message = capsys.readouterr().err
    assert end.value.code == 2
    assert all(part in message for part in told), message
    assert len(message.splitlines()) <= 3
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(("text", "words", "said"), NO_PLUGIN.values(), ids=NO_PLUGIN)
def test_a_misspelt_plugin_is_named_with_what_was_meant(text, words, said, write, users, stop_plugin, capsys):
    write("run.yaml", text)
    with pytest.raises(SystemExit):
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", NET, *words])
    message = capsys.readouterr().err
    for part in (*said, "there is no class and no plug-in 'stopp'. Did you mean 'stop'? [LT154]"):
        assert part in message


def test_a_mistake_in_a_configuration_of_code_is_told_with_its_key(users, capsys):
    with pytest.raises(SystemExit):
        LightningCLI(
            trainer_class=users.Trainer,
            args={"subcommand": "fit", "fit": {"model": "users.Net", "trainer": {"limit": 3, "max_epochs": "x"}}},
        )
    assert "args: fit.trainer.max_epochs: expected int or null, received x. [LT152]" in capsys.readouterr().err


def test_a_wrong_environment_variable_is_named(users, capsys, monkeypatch):
    monkeypatch.setenv("LT_FIT__TRAINER__MAX_EPOCHS", "x")
    with pytest.raises(SystemExit):
        LightningCLI(trainer_class=users.Trainer, args=["fit", NET], parser_kwargs={"default_env": True})
    assert "LT_FIT__TRAINER__MAX_EPOCHS" in capsys.readouterr().err


def test_the_place_is_the_last_one_that_counts(write, users):
    write("a.yaml", "trainer: {max_epochs: x, limit: 1}")
    write("b.yaml", "trainer: {max_epochs: 3}")
    places = ConfigPlaces(["--config", "a.yaml", "-c", "b.yaml", "--trainer.limit=4"])
    assert places.find("trainer.max_epochs").where == "b.yaml:1"
    assert places.find("trainer.limit").where == "command line"


def test_keys_in_files_that_files_name_have_places(write, users):
    write("a.yaml", "trainer: {limit: 3}\nmodel: parts/net.yaml\n")
    write("parts/net.yaml", "class_path: users.Net\ninit_args:\n  lr: 3\n")
    assert ConfigPlaces(["--config=a.yaml"]).find("model", "lr").where == "parts/net.yaml:3"


@pytest.mark.parametrize("installed", [False, True])
def test_a_file_in_a_folder_is_named_with_it(users, write, capsys, monkeypatch, installed):
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name) if installed else None)
    if installed:
        sys.modules["lightning.pytorch.callbacks"].Timer = type("Timer", (), {})
    write("runs/old.yaml", "trainer:\n  callbacks:\n  - class_path: lightning.pytorch.callbacks.Timer\n")
    with pytest.raises(SystemExit):
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=runs/old.yaml", NET])
    message = capsys.readouterr().err
    assert "runs/old.yaml:3: trainer.callbacks.0" in message
    assert "lightning.pytorch.callbacks.Timer is a class of Lightning's: `lt migrate`" in message


def test_an_unknown_text_is_passed_on(users):
    parser = LightningCLI(users.Net, trainer_class=users.Trainer, args=[], run=False).parser
    assert explain(parser, ConfigPlaces([]), "something else") == "something else"


def test_an_error_of_a_constructor_gets_the_places_of_what_it_names(write, users):
    write("a.yaml", "trainer:\n  max_epochs: -7\n  limit: 3\n")
    text = with_places(
        "max_epochs=-7: expected 0 or more.", ConfigPlaces(["-c", "a.yaml"]), ["max_epochs", "limit"], "trainer"
    )
    assert text.splitlines() == ["max_epochs=-7: expected 0 or more.", "  a.yaml:2: trainer.max_epochs"]


def test_a_configuration_cannot_run_commands(users, write, capsys, tmp_path):
    write("run.yaml", "model:\n  class_path: subprocess.Popen\n  init_args: {args: [touch, hacked]}\n")
    with pytest.raises(SystemExit):
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml"])
    assert "subprocess" in capsys.readouterr().err
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("makes", [False, True])
def test_a_value_without_a_type_stays_plain_data_unless_the_parser_makes_objects(makes, users, write, monkeypatch):
    write(
        "loose.py",
        "import users\n\n\nclass Loose(users.Net):\n    def __init__(self, anything=None):\n"
        "        super().__init__()\n        self.anything = anything\n",
    )
    write("run.yaml", "model: {class_path: loose.Loose, init_args: {anything: {class_path: torch.nn.Identity}}}")
    monkeypatch.setattr(LightningArgumentParser, "makes_untyped", makes)
    cli = LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml"])
    if makes:
        assert type(cli.model.anything) is torch.nn.Identity
    else:
        assert cli.model.anything == {"class_path": "torch.nn.Identity"}  # a description, no object


def test_such_a_value_stays_plain_data_in_the_arguments_of_one_class_too(users):
    class Loose(users.Net):
        def __init__(self, anything=None):
            super().__init__()
            self.anything = anything

    given = {"class_path": "torch.nn.Identity"}
    cli = LightningCLI(Loose, trainer_class=users.Trainer, args=["fit", f"--model.anything={json.dumps(given)}"])
    assert cli.model.anything == given


def test_a_class_in_memory_whose_module_is_gone_hides_no_mistake(users, write, capsys):
    gone = type("Net", (LightningModule,), {"__module__": "a_module_that_is_gone", "__qualname__": "Outer.Net"})
    write("run.yaml", "{}\n")
    with pytest.raises(SystemExit):
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", "--model=NetOfNowhere"])
    assert gone.__name__ == "Net"
    assert "A class is named with its module: my_package.NetOfNowhere." in capsys.readouterr().err


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
FLOW = "{" + ", ".join(["class_path: x", *BOMB.splitlines()]) + "}"
BOMBS = {
    "lists": (BOMB, "run.yaml:6:"),
    "itself": ("trainer:\n  callbacks: &a [*a]\n", "run.yaml:2:"),
    "mappings": (BOMB.replace("[", "{k: [").replace("]", "]}"), "run.yaml:"),
    "merged keys": (BOMB + "trainer:\n  <<: *i\n", "run.yaml:6:"),
    "in a value that has no type": (f"model:\n  class_path: users.Net\n  init_args:\n    lr: {json.dumps(BOMB)}\n", ""),
    "in a text that names a class": (f"trainer:\n  callbacks:\n    - {json.dumps(FLOW)}\n", ""),
    "in a file of its own": ("model: bomb.yaml\n", ""),
    "in a file of the trainer's": ("trainer: bomb.yaml\n", "bomb.yaml:6:"),
    "in a file that says it is JSON": ("trainer: bomb.json\n", "bomb.json:6:"),
}


@pytest.mark.parametrize(("text", "where"), BOMBS.values(), ids=BOMBS.keys())
def test_aliases_that_stand_for_billions_of_values_are_refused(text, where, users, write, capsys):
    write("run.yaml", text)
    write("bomb.yaml", BOMB)
    write("bomb.json", BOMB)
    write("fine.yaml", "trainer: {limit: 3}\n")
    with pytest.raises(SystemExit) as end:
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", "--config=fine.yaml", NET])
    message = capsys.readouterr().err
    assert end.value.code == 2
    assert not where or (where in message and "LT637" in message), message[:1000]
    assert len(message) < 4000


def test_a_file_named_in_another_is_named_where_it_is_no_yaml(users, write, capsys):
    write("run.yaml", "trainer: broken.yaml\n")
    write("broken.yaml", "limit: [1\nmax_epochs: 2\n")
    with pytest.raises(SystemExit):
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", NET])
    assert "broken.yaml:2:" in (message := capsys.readouterr().err)
    assert "LT156" in message


@pytest.mark.parametrize("levels", [500, 990, 2000])
@pytest.mark.parametrize("key", ["a", "trainer", "model"])
def test_values_that_nest_too_deep_are_refused(key, levels, users, write, capsys):
    write("run.yaml", f"{key}: {'[' * levels}{']' * levels}\n")
    with pytest.raises(SystemExit) as end:
        LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", NET])
    assert end.value.code == 2
    assert len(capsys.readouterr().err) < 4000


def test_a_few_aliases_are_read(users, write):
    write("run.yaml", "trainer: {limit: &n 3, max_epochs: *n}\n")
    cli = LightningCLI(trainer_class=users.Trainer, args=["fit", "--config=run.yaml", NET])
    assert (cli.trainer.limit, cli.trainer.max_epochs) == (3, 3)
