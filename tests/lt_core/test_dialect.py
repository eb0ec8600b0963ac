"""A package that speaks another dialect is found by the old names that it has as entry points."""

import sys
from pathlib import Path

import pytest

from lt_core import PluginError, plugins
from lt_core.dialect import NOT_MINE, Dialect, attribute_of, dialects, spoken

PACKAGE = """
from lt_core.dialect import NOT_MINE, Dialect


class Pirate(Dialect):
    def arguments(self, where, given, problems):
        if "voyages" in given:
            given["max_epochs"] = given.pop("voyages")
        return given

    def attribute(self, owner, name):
        if name == "treasure":
            raise AttributeError("Trainer.treasure is buried: read trainer.callback_metrics")
        return "aye" if name == "captain" else NOT_MINE
"""
NAMES = "[lt.compat]\nahoy = {module}:Pirate\nparrot = {module}:Pirate\n"


def install(folder: Path, module: str, source: str = PACKAGE) -> None:
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(NAMES.format(module=module))
    plugins.rescan()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    monkeypatch.undo()
    plugins.rescan()


def test_the_names_are_known_before_the_package_is_imported(folder):
    install(folder, "pirates_unread")
    assert {"ahoy", "parrot"} <= spoken()
    assert dialects(["on_train_start"]) == []
    assert "pirates_unread" not in sys.modules


def test_a_name_brings_its_dialect_once(folder):
    install(folder, "pirates_once")
    (found,) = dialects(["ahoy", "parrot"])
    assert found is dialects(["ahoy"])[0]
    assert found.arguments("Trainer", {"voyages": 3, "devices": 1}, []) == {"max_epochs": 3, "devices": 1}


def test_an_attribute_is_asked_of_the_dialects_unless_it_is_private(folder):
    install(folder, "pirates_attributes")
    assert attribute_of(object, "captain") == "aye"
    with pytest.raises(AttributeError, match="treasure is buried"):
        attribute_of(object, "treasure")
    assert attribute_of(object, "parrot") is attribute_of(object, "_captain") is NOT_MINE


def test_two_packages_with_one_name_are_an_error_that_names_both(folder):
    install(folder, "pirates_here")
    install(folder, "pirates_there")
    with pytest.raises(PluginError, match=r"old name 'ahoy': pirates_.* and pirates_.*Uninstall one"):
        dialects(["ahoy"])


def test_a_dialect_that_overrides_nothing_understands_nothing():
    empty, given = Dialect(), {"voyages": 3}
    assert empty.arguments("Trainer", given, []) == given
    assert empty.before_run(None, None, ["mine"]) == (None, ["mine"])
    assert empty.progress({}, optimizers=1, batches=None, window=lambda epoch: 1) is None


def test_what_an_entry_point_names_is_looked_up_once(folder, monkeypatch):
    install(folder, "once")
    assert attribute_of(object(), "captain") == "aye"
    monkeypatch.setattr(plugins.EntryPoint, "load", lambda entry: pytest.fail(f"{entry.value} is imported again"))
    assert attribute_of(object(), "captain") == "aye"
