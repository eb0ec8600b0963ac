"""Names that a package has given to another one are found at their old place; without that one the error names it."""

import sys
from importlib import import_module

import pytest
from tests import processes

from lt_core.plugins import BROUGHT_BY

GIVEN = [
    (group.removeprefix("names of "), name, package)
    for group, names in BROUGHT_BY.items()
    if group.startswith("names of ")
    for name, package in names.items()
]
FORMER = [("lt_strategies.fsdp", name, "lt-parallel") for name in ("FSDP", "ModelParallel")]  # of lt_strategies


@pytest.mark.parametrize(("place", "name", "package"), GIVEN + FORMER)
def test_a_name_is_found_where_it_was(place, name, package):
    assert getattr(import_module(place), name) is getattr(import_module(package.replace("-", "_")), name)


def test_without_the_package_that_has_them_each_error_names_it():
    script = (
        "import sys\n"
        "from importlib import import_module\n"
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        f"gone = {sorted({package.replace('-', '_') for *_, package in GIVEN})!r}\n"
        "PathFinder.find_spec = classmethod(lambda cls, name, *a, **k: None if name in gone else find(name, *a, **k))\n"
        f"for place, name, package in {GIVEN + FORMER!r}:\n"
        "    try:\n"
        "        getattr(import_module(place), name)\n"
        "    except Exception as error:\n"
        "        place = place.removesuffix('.fsdp')\n"
        "        assert f'{place}.{name} comes with {package}' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError(name)\n"
    )
    processes.run([sys.executable, "-c", script], check=True)
