"""What users and plug-in authors could write for 0.1 they can write now.

``of_0_1/`` holds what 0.1 promised: its api.txt files, its entry points and its codes. What went on purpose stands in
``of_0_1/dropped.txt``, a line for each, with the reason.
"""

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("lt")
pytest.importorskip("lt_cli")

PROMISED = Path(__file__).parent / "of_0_1"
DROPPED = {line.split("  #")[0].strip() for line in (PROMISED / "dropped.txt").read_text("utf-8").splitlines()}
NAMES = [line.split(" = ") for line in (PROMISED / "lt.txt").read_text("utf-8").splitlines()]


@cache
def classes_of_0_1():
    """Return the lines of each class that 0.1's api.txt files describe, by its place."""
    found, module, lines = {}, "", []
    for path in sorted(PROMISED.glob("lt-*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if not line.startswith(" "):
                module = line.rstrip(":")
            elif line.startswith("    class "):
                name = re.match(r" +class (\w+)", line)[1]
                lines = found[f"{module}:{name}"] = []
            elif line.startswith("        "):
                lines.append(line.strip())
            else:
                lines = []
    return found


def arguments_in(line):
    """Return name and parameters of a described method; None for an attribute."""
    text = re.sub(r"^(@\w+(\.\w+)? )+", "", line)
    if "(" not in text or not re.match(r"\w+\(", text):
        return None
    function = ast.parse(f"def {text}: ...").body[0]
    given = function.args
    return function.name, [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def takes(method, names):
    """Return the parameters of ``names`` that ``method`` no longer takes."""
    parameters = inspect.signature(method).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    return [name for name in names if name not in parameters and name not in ("self", "cls", "mcs")]


def has(kind, name):
    """Return whether a class has a member, of its own or set by its instances."""
    if hasattr(kind, name) or name == "__init__":
        return True
    return any(
        name in vars(base).get("__annotations__", {}) or name in getattr(base, "__slots__", ()) for base in kind.__mro__
    )


def test_every_name_of_lt_is_where_it_was():
    missing = []
    for place, _ in NAMES:
        module, _, name = place.rpartition(".")
        if place not in DROPPED and not hasattr(import_module(module), name):
            missing.append(place)
    assert not missing


def test_what_users_reach_through_lt_has_the_members_that_it_had():
    gone, compared = [], 0
    for place, origin in NAMES:
        module, _, name = place.rpartition(".")
        kind = None if place in DROPPED else getattr(import_module(module), name, None)
        if not isinstance(kind, type):
            continue
        for line in classes_of_0_1().get(described_as(origin), []):
            described = arguments_in(line)
            member = described[0] if described else re.match(r"(?:@\w+(?:\.\w+)? )*(\w+)", line)[1]
            if f"{name}.{member}" in DROPPED:
                continue
            compared += 1
            if not has(kind, member):
                gone.append(f"{name}.{member}")
            elif described and callable(getattr(kind, member, None)):
                lost = takes(getattr(kind, member), described[1])
                gone += [f"{name}.{member}({each}=)" for each in lost if f"{name}.{member}({each}=)" not in DROPPED]
    assert not sorted(set(gone))
    assert compared > 1500  # the snapshot is read, and found


def described_as(origin):
    """Return the place under which api.txt describes what ``lt`` names by the place that exports it."""
    module, _, name = origin.partition(":")
    if origin in classes_of_0_1():
        return origin
    same = [
        place for place in classes_of_0_1() if place.endswith(f":{name}") and place.startswith(module.split(".")[0])
    ]
    return same[0] if len(same) == 1 else ""


def test_every_entry_point_of_0_1_is_still_found():
    then = (PROMISED / "entry_points.txt").read_text("utf-8").splitlines()
    groups = {line.split()[0] for line in then}
    now = {f"{group} {point.name}" for group in groups for point in entry_points(group=group)}
    assert not sorted(set(then) - now - DROPPED)


def test_every_code_of_0_1_still_means_something():
    page = (Path(__file__).parents[2] / "docs" / "codes.md").read_text("utf-8")
    then = set((PROMISED / "codes.txt").read_text("utf-8").splitlines())
    assert not sorted(then - set(re.findall(r"LT\d{3}", page)) - DROPPED)
