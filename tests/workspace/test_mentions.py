"""What the pages for people name in the code is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("packages/*/README.md"),
    ]
    if path.name not in ("codes.md", "mistakes.md", "hooks.md")  # generated from what they name
]
FILE = re.compile(r"`(?P<file>(?:lt_?\w*|arguments|setup|step|run|tests|tools|benchmarks|examples|docs)/[\w./-]*)`")
NAME = re.compile(r"`(?P<name>lt_\w+(?:\.\w+)+)[`(]")
PLACES = [ROOT, *ROOT.glob("packages/*/src"), ROOT / "packages/lt-loops/src/lt_loops"]


def is_there(dotted):
    """Return whether a dotted name leads to a module, or to a word in a module or in one of a package."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        for place in ROOT.glob("packages/*/src"):
            module = place.joinpath(*parts[:length])
            files = [module.with_suffix(".py")] if module.with_suffix(".py").exists() else list(module.glob("*.py"))
            if files:
                text = " ".join(file.read_text("utf-8") for file in files)
                return all(re.search(rf"\b{word}\b", text) for word in parts[length:])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_names_on_a_page_exist(page):
    text = page.read_text("utf-8")
    files = {match["file"] for match in FILE.finditer(text)}
    missing = [file for file in files if not any((place / file).exists() for place in PLACES)]
    missing += [name for name in {match["name"] for match in NAME.finditer(text)} if not is_there(name)]
    assert not missing
