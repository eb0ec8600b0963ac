"""The package says what it offers, and is found by name."""

import re
from pathlib import Path

import lt_tuning
from lt_core import plugins


def test_every_name_loads_and_the_stub_lists_the_same():
    stub = (Path(lt_tuning.__file__).parent / "__init__.pyi").read_text()
    assert sorted(re.findall(r" as (\w+)", stub)) == lt_tuning.__all__
    for name in lt_tuning.__all__:
        assert getattr(lt_tuning, name).__name__ == name


def test_callbacks_are_found_by_name():
    names = "backbone_finetuning batch_size_finder gradient_accumulation_scheduler learning_rate_finder model_pruning"
    for name in names.split():
        kind = plugins.load("callbacks", name)
        assert kind.__name__ in lt_tuning.__all__
        assert kind.__name__.lower() == name.replace("_", "")
