"""The package says what it offers, and is found by name."""

import re
from pathlib import Path

import lt_averaging
from lt_core import plugins


def test_every_name_loads_and_the_stub_lists_the_same():
    stub = (Path(lt_averaging.__file__).parent / "__init__.pyi").read_text()
    assert sorted(re.findall(r" as (\w+)", stub)) == lt_averaging.__all__
    for name in lt_averaging.__all__:
        assert getattr(lt_averaging, name).__name__ == name


def test_callbacks_are_found_by_name():
    for name in ("ema_weight_averaging", "stochastic_weight_averaging", "weight_averaging"):
        kind = plugins.load("callbacks", name)
        assert kind.__name__ in lt_averaging.__all__
        assert kind.__name__.lower() == name.replace("_", "")
