"""A name of another trainer is answered with what to write here, and what is to be written exists."""

import ast
import inspect
import re
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import lt
import lt_core
from lt import callbacks, loggers, strategies
from lt.errors import LtError
from lt.tuner import Tuner
from lt_core.dialect import NOT_MINE

TABLE = ConfigParser(delimiters="=", interpolation=None)
TABLE.optionxform = str  # type: ignore[assignment,method-assign]
TABLE.read(Path(lt_core.__file__).with_name("guesses.ini"), "utf-8")
ROWS = [(section, name) for section in TABLE.sections() if section != "off" for name in TABLE[section]]
ARGUMENTS = ["Trainer()", "fit()", "ModelCheckpoint()", "EarlyStopping()"]
OFF = [
    (section, name, value)
    for section, name in ROWS
    if section in ARGUMENTS and " " not in name
    for value in (False, None, 0)
    if f"{name} {value}".lower() not in map(str.lower, TABLE[section])
]
GIVEN = {  # what stands before {} in a remedy, and what the other trainer's user may have given
    "dirpath": "runs",
    "default_root_dir": "runs",
    "monitor": "val_loss",
    "accelerator": "cpu",
    "logger": "csv",
    "project": "digits",
    "name": "digits",
    "CSVLogger": "logs",
    "ckpt_path": "last.ckpt",
    "decay": 0.9,
    "min_delta": 0.1,
    "compile": True,
    "callbacks": None,
}
MODULE = lt.LightningModule
KNOWN: dict[str, Any] = {
    **{name: getattr(callbacks, name) for name in callbacks.__all__},
    **{name: getattr(loggers, name) for name in loggers.__all__},
    **{name: getattr(strategies, name) for name in strategies.__all__},
    "trainer": lt.Trainer,
    "self": MODULE,
    "Module": MODULE,
    "Trainer": lt.Trainer,
    "result": lt.FitResult,
    "Tuner": Tuner,
    "DataLoader": DataLoader,
    "seed_everything": lt.seed_everything,
    "torch": torch,
    "inspect": inspect,
    "LightningCLI": lt.cli.LightningCLI,
    "lt": lt,
    "int": int,
}
BLANKS = {
    "model",
    "loader",
    "dataset",
    "datamodule",
    "collate",
    "loss",
    "accuracy",
    "optimizer",
    "scheduler",
    "callback",
    "total",
}
BLANKS |= {"args", "batch", "Block", "parser"}


NOT_MADE = {"trainer", "self", "Module", "result", "Tuner", "DataLoader", "seed_everything", "LightningCLI"}
"""Known names that stand for an object of the user's, or whose call would do more than make one."""


class Net(lt.LightningModule):
    def training_step(self, batch):
        raise AssertionError

    def configure_optimizers(self):
        raise AssertionError


@pytest.fixture(autouse=True)
def _without_dialects(monkeypatch):
    """As where lt-compat is not installed, which understands some of them."""
    monkeypatch.setattr("lt_loops.arguments.spellings.dialects", tuple)
    monkeypatch.setattr("lt_loops.arguments.spellings.attribute_of", lambda *_: NOT_MINE)


def as_a_user_writes_it(section: str, name: str, value: Any = 3) -> str:
    """Return the message of the error."""
    name, _, shown = name.partition(" ")
    if shown:
        with suppress(SyntaxError, ValueError):  # a word of a file of lt fit
            shown = ast.literal_eval(shown)
        value = shown
    written: dict[str, Any] = {
        "Trainer": lambda: getattr(lt.Trainer(logger=False), name),
        "Strategy": lambda: getattr(lt.Trainer(logger=False).strategy, name),
        "fit()": lambda: lt.Trainer(logger=False).fit(Net(), **{name: value}),
        "validate()": lambda: lt.Trainer(logger=False).validate(Net(), **{name: value}),
        "test()": lambda: lt.Trainer(logger=False).test(Net(), **{name: value}),
        "ModelCheckpoint()": lambda: callbacks.ModelCheckpoint(**{name: value}),
        "EarlyStopping()": lambda: callbacks.EarlyStopping("loss", **{name: value}),
        "lt": lambda: getattr(lt, name),
    }
    argument = {"strategies": "strategy", "accelerators": "accelerator", "loggers": "logger"}.get(section, section)
    given = {name: value} if section == "Trainer()" else {argument: name}
    write = written.get(section) or (lambda: lt.Trainer(**given))
    with pytest.raises((LtError, AttributeError)) as caught:
        write()
    return str(caught.value)


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_the_message_says_what_to_write(section, name):
    message = as_a_user_writes_it(section, name)
    assert re.match(
        re.escape(TABLE[section][name].format("\0")).replace("\0", ".*"), message[message.index(". ") + 2 :]
    )


def codes(remedy: str) -> list[str]:
    """Return the pieces of code in a remedy: after `write` or `read`, and after `or`, up to words or the end."""
    found = []
    for start in re.finditer(r"\b(?:[Ww]rite|[Rr]ead|or|and) (?=[\w.]+[(=.])", remedy):
        rest = remedy[start.end() :]
        for end in sorted({len(rest), *(m.start() for m in re.finditer(r"[.;:,]? |\.$", rest))}, reverse=True):
            code = rest[:end]
            for form in (code, f"Trainer({code})"):
                try:
                    ast.parse(form)
                except SyntaxError:
                    continue
                found.append(form)
                break
            else:
                continue
            break
    return found


def check(node: ast.AST) -> None:
    """Compare names, attributes and arguments in code with what is there."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            function = value_of(part.func)
            if function is not None:
                given = {keyword.arg: None for keyword in part.keywords}
                bound = [None] * (len(part.args) + (part.func is not None and is_method(part.func)))
                inspect.signature(function).bind_partial(*bound, **given)
                assert not {"unknown"} & inspect.signature(function).bind_partial(*bound, **given).arguments.keys()
        elif isinstance(part, ast.Attribute):
            value_of(part)


def is_method(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and inspect.isfunction(value_of(node))
        and isinstance(value_of(node.value), type)
    )


def value_of(node: ast.AST) -> Any:
    """Return what a name stands for: the class for an instance; None where nobody can say."""
    if isinstance(node, ast.Name):
        assert node.id in KNOWN or node.id in BLANKS, node.id
        return KNOWN.get(node.id)
    if isinstance(node, ast.Call):
        return value_of(node.func)
    if isinstance(node, ast.Attribute):
        owner = value_of(node.value)
        if owner is None or isinstance(owner, property):
            return None
        if node.attr in getattr(owner, "__annotations__", {}):
            return None
        return getattr(owner, node.attr)  # fails where there is none
    return None


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_what_is_to_be_written_exists(section, name):
    remedy = filled(TABLE[section][name]).partition(" Or install")[0]
    pieces = codes(remedy)
    assert pieces or re.search(
        r"Leave|no equivalent|without a decorator|pip install|set in|say[s ]|are functions|def \w+\(self", remedy
    ), remedy
    for code in pieces:
        check(ast.parse(code))
        try_to_make(ast.parse(code))


def filled(remedy: str) -> str:
    """Return a remedy with a value that its argument may have."""
    text = re.sub(r"(\w+)([=(])\{0?\}", lambda place: f"{place[1]}{place[2]}{GIVEN.get(place[1], 3)!r}", remedy)
    return text.format(3)


def try_to_make(node: ast.Module) -> None:
    """Make what is made in code, where no name in it is of the user's."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id not in NOT_MADE:
            if {each.id for each in ast.walk(part) if isinstance(each, ast.Name)} <= KNOWN.keys() - NOT_MADE:
                try:
                    eval(compile(ast.Expression(part), "remedy", "eval"), {**KNOWN})
                except LtError as error:  # no such device here, or not so many; a package that is not installed
                    assert re.search(r"LT111|LT114|LT551", str(error))  # noqa: PT017


@pytest.mark.parametrize(("section", "name", "value"), OFF)
def test_what_is_off_at_another_trainer_is_left_out(section, name, value):
    assert "Leave it out." in as_a_user_writes_it(section, name, value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"disable_tqdm": False}, "Leave it out."),
        ({"disable_tqdm": True}, "Write enable_progress_bar=False."),
        ({"verbose": 2}, "Write enable_progress_bar=True."),
        ({"verbose": 0}, "Write enable_progress_bar=False."),
        ({"fp16": False}, "Leave it out."),
        ({"fp16": True}, "Write precision='16-mixed'."),
        ({"mixed_precision": "no"}, "Leave it out."),
        ({"num_gpus": 0}, "Write accelerator='cpu'."),
        ({"device": "cuda:1"}, "Write accelerator='cuda', devices=[1]."),
        ({"eval_steps": 500}, "Write val_check_interval='500 steps'."),
        ({"save_total_limit": 2}, "ModelCheckpoint(monitor='step', mode='max', save_top_k=2)."),
        ({"save_total_limit": None}, "ModelCheckpoint(save_top_k=-1)."),
        ({"seed": 0}, "Write seed_everything(0)"),
    ],
)
def test_a_value_has_the_remedy_that_means_the_same(written, meant):
    with pytest.raises(LtError, match=re.escape(meant)):
        lt.Trainer(**written)


def test_the_remedy_for_the_newest_checkpoints_keeps_the_newest(tmp_path):
    layer = torch.nn.Linear(1, 1)

    class One(lt.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def training_step(self, batch):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    keep = callbacks.ModelCheckpoint(tmp_path, "{step}", monitor="step", mode="max", save_top_k=2)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    lt.Trainer(max_epochs=4, callbacks=keep, **quiet).fit(One(), DataLoader(torch.ones(3, 1)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step=12.ckpt", "step=9.ckpt"]


def test_a_name_of_another_module_of_lt_is_found():
    with pytest.raises(AttributeError, match=r"Write lt\.callbacks\.EarlyStopping\."):
        lt.EarlyStopping  # noqa: B018  (asked for)
    with pytest.raises(ImportError, match=r"lt has no EarlyStopping\. Write lt\.callbacks\.EarlyStopping\."):
        from lt import EarlyStopping  # noqa: F401
    with pytest.raises(ImportError, match=r"lt has no TrainingArguments\. Write lt\.Trainer"):
        from lt import TrainingArguments  # noqa: F401
    assert not hasattr(lt, "EarlyStopping")
