"""Callbacks that an installed package adds to every Trainer of Lightning, by an entry point."""

import sys

import pytest

from lt_compat.lightning.trainer import trainer_class
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
FACTORIES = """
from lt_core import Callback

class Of(Callback):
    def __init__(self, name):
        self.name = name

def one():
    return Of("one")

def two():
    return [Of("two"), Of("three")]

def none():
    return []
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    def install(text):
        (tmp_path / "factories_of_a_package.py").write_text(FACTORIES, "utf-8")
        (folder := tmp_path / "a_package-1.0.dist-info").mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: a-package\nVersion: 1.0\n", "utf-8")
        (folder / "entry_points.txt").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "factories_of_a_package", raising=False)

    return install


@pytest.mark.parametrize("root", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize(("factory", "brought"), [("one", ["one"]), ("two", ["two", "three"]), ("none", [])])
def test_a_trainer_of_lightning_has_them_behind_its_own(installed, root, factory, brought):
    installed(f"[{root}.callbacks_factory]\nmine = factories_of_a_package:{factory}\n")
    trainer = trainer_class()(accelerator="cpu", **QUIET)
    assert [callback.name for callback in trainer.callbacks if hasattr(callback, "name")] == brought


def test_a_factory_of_both_groups_is_called_once_and_by_no_trainer_of_lt(installed):
    groups = "lightning.pytorch.callbacks_factory", "pytorch_lightning.callbacks_factory"
    installed("".join(f"[{group}]\nmine = factories_of_a_package:one\n" for group in groups))
    made = [kind(accelerator="cpu", **QUIET) for kind in (trainer_class(), Trainer)]
    assert [sum(hasattr(callback, "name") for callback in trainer.callbacks) for trainer in made] == [1, 0]
