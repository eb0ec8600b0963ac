"""A name of another trainer is answered with what to write here, and what is to be written exists."""

import ast
import inspect
import re
from configparser import ConfigParser
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
ROWS = [(section, name) for section in TABLE.sections() for name in TABLE[section]]
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
}
BLANKS |= {"args", "batch", "Block", "parser"}


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


def as_a_user_writes_it(section: str, name: str) -> str:
    """Return the message of the error."""
    written: dict[str, Any] = {
        "Trainer": lambda: getattr(lt.Trainer(logger=False), name),
        "Strategy": lambda: getattr(lt.Trainer(logger=False).strategy, name),
        "fit()": lambda: lt.Trainer(logger=False).fit(Net(), **{name: 3}),
        "validate()": lambda: lt.Trainer(logger=False).validate(Net(), **{name: 3}),
        "test()": lambda: lt.Trainer(logger=False).test(Net(), **{name: 3}),
        "ModelCheckpoint()": lambda: callbacks.ModelCheckpoint(**{name: 3}),
        "EarlyStopping()": lambda: callbacks.EarlyStopping("loss", **{name: 3}),
        "lt": lambda: getattr(lt, name),
    }
    argument = {"strategies": "strategy", "accelerators": "accelerator", "loggers": "logger"}.get(section, section)
    write = written.get(section) or (lambda: lt.Trainer(**{name if section == "Trainer()" else argument: name}))
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
    remedy = TABLE[section][name].format(3).partition(" Or install")[0]
    pieces = codes(remedy)
    assert pieces or re.search(r"without a decorator|pip install|say[s ]|are functions|def \w+\(self", remedy), remedy
    for code in pieces:
        check(ast.parse(code))


def test_a_name_of_another_module_of_lt_is_found():
    with pytest.raises(AttributeError, match=r"Write lt\.callbacks\.EarlyStopping\."):
        lt.EarlyStopping  # noqa: B018  (asked for)
    with pytest.raises(ImportError, match=r"lt has no EarlyStopping\. Write lt\.callbacks\.EarlyStopping\."):
        from lt import EarlyStopping  # noqa: F401
    with pytest.raises(ImportError, match=r"lt has no TrainingArguments\. Write lt\.Trainer"):
        from lt import TrainingArguments  # noqa: F401
    assert not hasattr(lt, "EarlyStopping")
