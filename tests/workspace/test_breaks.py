"""tools/breaks.py finds what would break users' code, and a release with it must raise the minor version."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = """lt_low.parts:
    class Part(Base, ValueError)
        __init__(self, size: int, *, deep: bool=False) -> None
        name: str = 'part'
        @property kind(self) -> str
        kind can be set
        @classmethod made(cls) -> Part
        run(self, steps: int=1, **kwargs: Any) -> None
    class Place(NamedTuple)
        floor: int = 0
    make(name: str) -> Part
entry points lt.callbacks:
    part = lt_low.parts:Part
"""
PLANTED = {
    ("    make(name: str) -> Part\n", ""): "lt_low:make is gone",
    ("        @property kind(self) -> str\n", ""): "lt_low:Part.kind is gone",
    (", *, deep: bool=False", ""): "lt_low:Part.__init__: the argument deep is gone",
    ("deep: bool=False", "deep: bool=True"): "lt_low:Part.__init__: the default deep=False is now True",
    ("size: int, *, deep", "deep"): "lt_low:Part.__init__: the argument size is gone",
    ("name: str)", "name: str, place: str)"): "lt_low:make: the argument place must be given",
    ("steps: int=1, ", ""): None,  # **kwargs takes it
    ("steps: int=1, **kwargs: Any", "steps: int=1"): "lt_low:Part.run: **kwargs is gone",
    ("size: int, *, deep: bool=False", "deep: bool=False, size: int=1"): "lt_low:Part.__init__: positions of arguments",
    ("name: str = 'part'", "name: str = 'piece'"): "lt_low:Part.name: the default 'part' is now 'piece'",
    ("    part = lt_low.parts:Part\n", ""): "entry points lt.callbacks part is gone",
    ("lt_low.parts:\n", "lt_low.rooms.parts:\n"): None,  # a module's place is no promise
    ("size: int, *", "size: int, *, wide: bool=False"): None,
    ("make(name: str)", "make(name: str, place: str='')"): None,
    ("entry points lt.callbacks:\n    part = lt_low.parts:Part\n", ""): "entry points lt.callbacks part is gone",
    ("Part(Base, ValueError)", "Part(Base)"): "lt_low:Part is no ValueError",
    ("        kind can be set\n", ""): "lt_low:Part.kind as one that can be set is gone",
    ("@property kind(self)", "kind(self)"): "lt_low:Part.kind is now a method",
    (
        "        run(self, steps: int=1, **kwargs: Any)",
        "        @property run(self)",
    ): "lt_low:Part.run is now a property",
    ("@classmethod made(cls)", "made(self)"): "lt_low:Part.made needs an object",
    ("floor: int = 0", "floor: int"): "lt_low:Place.floor: the default 0 is now none",
    ("floor: int = 0", "floor: int = 0\n        room: int"): "lt_low:Place.room must be given",
    ("floor: int = 0", "floor: int = 0\n        room: int = 1"): None,
    ("class Place(NamedTuple)", "class Place(Unknown)"): None,  # what is no promise may go
}


def tool(name):
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("change", PLANTED, ids=lambda change: f"{change[0].strip()}-{change[1].strip()}"[:90])
def test_a_planted_change_of_each_kind_is_found(change):
    now = OLD.replace(*change)
    assert now != OLD
    found = list(tool("breaks").breaks(OLD, now))
    expected = PLANTED[change]
    assert not found if expected is None else [text for text in found if text.startswith(expected)], found


def test_a_member_that_moved_into_a_base_is_still_there():
    now = OLD.replace("        @property kind(self) -> str\n", "") + (
        "lt_low.base:\n    class Base()\n        @property kind(self) -> str\n"
    )
    assert list(tool("breaks").breaks(OLD, now)) == []


def test_all_that_breaks_since_the_last_release_is_in_the_changelogs():
    command = [sys.executable, str(ROOT / "tools" / "breaks.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
