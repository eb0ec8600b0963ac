"""The sessions that pages, workflows and CI name are in the noxfile."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / ".ci" / "run",
    *ROOT.glob(".github/workflows/*.yml"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("packages/*/README.md"),
]


def sessions():
    """Return the names of all sessions."""
    found = set()
    for node in ast.parse((ROOT / "noxfile.py").read_text("utf-8")).body:
        for mark in getattr(node, "decorator_list", ()):
            text = ast.unparse(mark)
            if text == "nox.session" or text.startswith("nox.session("):
                name = re.search(r"name='([\w-]+)'", text)
                found.add(name[1] if name else node.name)
    return found


def named(path):
    """Yield the word after each `nox -s`, and all words of a row of CI."""
    for line in path.read_text("utf-8").splitlines():
        for match in re.finditer(r"nox -s \"?([a-z][\w-]*)", line):
            yield match[1]
        if row := re.match(r"(stage )?uv run nox -s ([^>]+)", line):
            yield from row[2].split()


def test_every_named_session_exists():
    known = sessions()
    assert not [f"{path.relative_to(ROOT)}: {name}" for path in PLACES for name in named(path) if name not in known]


def test_each_accelerator_that_lt_strategies_ships_has_a_session_of_its_own():
    project = tomllib.loads((ROOT / "packages" / "lt-strategies" / "pyproject.toml").read_text("utf-8"))["project"]
    kinds = {target.rpartition(":")[2].lower() for target in project["entry-points"]["lt.accelerators"].values()}
    assert {f"tests-{kind}" for kind in kinds} <= sessions()
