"""The house gets no worse: each figure of tools/house.py stays at its limit or below."""

import ast
import re
import runpy
from pathlib import Path

import pytest

HOUSE = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "house.py"))


@pytest.fixture(scope="module")
def figures():
    return HOUSE["figures"]()


@pytest.mark.parametrize("name", HOUSE["LIMITS"])
def test_a_figure_of_the_house_keeps_its_limit(name, figures):
    print(f"{figures[name]} {name}")
    assert figures[name] <= HOUSE["LIMITS"][name]


def test_a_circle_is_found_wherever_it_begins():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d2"}, "d2": {"d"}}
    assert HOUSE["circles"](edges) == [["b", "c"], ["d", "d2"]]


def test_what_annotations_name_of_ours_is_imported_as_the_program_runs():
    # so that a circle of types is an error of the interpreter's, and annotations can be read
    hidden = []
    for name, path in HOUSE["sources"]().items():
        if name.startswith(("lt_core.", "lt_loops.", "lt_callbacks.")) and path.name != "__init__.py":
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                    imports = [inner for inner in node.body if isinstance(inner, ast.ImportFrom)]
                    hidden += [f"{name}: {i.module}" for i in imports if (i.module or "").startswith("lt_")]
    assert not hidden


def test_a_module_has_an_all_only_where_something_of_it_is_promised():
    api = "".join(path.read_text("utf-8") for path in sorted(HOUSE["ROOT"].glob("packages/*/api.txt")))
    promised = set(re.findall(r"^([\w.]+):$", api, re.MULTILINE))
    others = ("lt_compat.", "lt_testing.", "lt.")  # Lightning's names, parts of kits, the umbrella's table
    found = [
        name
        for name, path in HOUSE["sources"]().items()
        if path.name != "__init__.py" and not name.startswith(others) and name not in promised
        if re.search(r"^__all__ = ", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert not found
