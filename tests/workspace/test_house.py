"""The house gets no worse: each figure of tools/house.py stays at its limit or below."""

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
