import re
import subprocess
import sys
from pathlib import Path

import pytest

import lt_callbacks
from lt_core import plugins
from lt_core.callback import Callback


def test_every_name_loads_and_the_stub_lists_the_same():
    stub = (Path(lt_callbacks.__file__).parent / "__init__.pyi").read_text()
    assert sorted(re.findall(r" as (\w+)", stub)) == lt_callbacks.__all__
    for name in lt_callbacks.__all__:
        assert getattr(lt_callbacks, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Nothing"):
        lt_callbacks.Nothing  # noqa: B018


def test_importing_costs_neither_torch_nor_a_progress_library():
    code = "import sys, lt_callbacks; print(sorted({'torch', 'tqdm', 'rich'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_defaults_load_no_drawing_library():  # torch itself loads tqdm where it is installed
    code = (
        "import sys; from lt_callbacks import ModelCheckpoint, ModelSummary, TQDMProgressBar; TQDMProgressBar();"
        "print(sorted({'tqdm.auto', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def own_entries(group):
    return [name for name in plugins.names(group) if plugins.load(group, name).__module__.startswith("lt_callbacks")]


def test_callbacks_are_found_by_name():
    names = own_entries("callbacks")
    assert {"early_stopping", "model_checkpoint", "rich_progress_bar"} <= set(names)
    for name in names:
        kind = plugins.load("callbacks", name)
        assert issubclass(kind, Callback)
        assert re.sub(r"[^a-z]", "", name) == kind.__name__.lower()


@pytest.mark.parametrize("role", ["progress_bar", "summary", "checkpoint"])
def test_the_trainers_defaults_are_made_without_arguments_and_say_their_role(role):
    assert plugins.find("defaults", role)().role == role
