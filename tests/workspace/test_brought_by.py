"""The table that says which package brings a name knows each name of each package."""

from importlib.metadata import distributions

import pytest

from lt_core.plugins import BROUGHT_BY

ENTRIES = [
    (entry.group.removeprefix("lt."), entry.name, found.name)
    for found in distributions()
    if found.name.startswith("lt-") and found.name != "lt-core"
    for entry in found.entry_points
    if entry.group.removeprefix("lt.") in BROUGHT_BY and not entry.name.startswith("parameter.")
]


@pytest.mark.parametrize(("group", "name", "package"), ENTRIES)
def test_a_name_is_known_by_its_package(group, name, package):
    assert BROUGHT_BY[group][name].partition("[")[0] == package


@pytest.mark.parametrize(
    ("group", "name", "install"),
    [
        ("precision", "transformer-engine", "lt-lowbits[transformer-engine]"),
        ("precision", "transformer-engine-float16", "lt-lowbits[transformer-engine]"),
        ("precision", "float8", "lt-lowbits[torchao]"),
        ("precision", "int8", "lt-lowbits[torchao]"),
        ("precision", "bitsandbytes", "lt-lowbits[bitsandbytes]"),
        ("loggers", "wandb", "lt-loggers[wandb]"),
        ("loggers", "csv", "lt-loggers"),
        ("checkpoint_io", "sharded", "lt-checkpoint[sharded]"),
        ("strategies", "xla_spmd", "lt-xla"),
        ("profilers", "xla", "lt-profilers"),
    ],
)
def test_what_a_name_needs_comes_with_it(group, name, install):
    assert BROUGHT_BY[group][name] == install
