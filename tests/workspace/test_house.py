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


def test_a_package_keeps_its_budget_of_tokens():
    weights = HOUSE["weights"]()
    print(weights)
    assert HOUSE["BUDGETS"].keys() <= weights.keys()
    assert not {name: weights[name] for name, budget in HOUSE["BUDGETS"].items() if weights[name] > budget}


def test_a_wide_line_and_a_docstring_do_not_change_the_count(tmp_path):
    (tmp_path / "a.py").write_text('def f(a, b):\n    """Add."""\n    # why\n    return a + b\n')
    (tmp_path / "b.py").write_text("def f(\n    a, b\n): return a + b\n")
    assert HOUSE["tokens"](tmp_path / "a.py") == HOUSE["tokens"](tmp_path / "b.py") == 12


def test_folders_and_files_at_the_top_make_circles_too():
    edges = {"p.a.one": {"p.b.two"}, "p.b.three": {"p.top"}, "p.top": {"p.a.four"}, "q.a.x": {"p.a.one"}}
    assert HOUSE["circles"](HOUSE["arrows_of_folders"](edges)) == [["p.a", "p.b", "p.top"]]


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
    others += ("lt_monarch.", "lt_ray.", "lt_torchft.")  # engines have no api.txt: they cannot be imported here
    found = [
        name
        for name, path in HOUSE["sources"]().items()
        if path.name != "__init__.py" and not name.startswith(others) and name not in promised
        if re.search(r"^__all__ = ", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert not found
