"""What docs and notebooks have pip install from the index holds all that lt's wheels, taken from a folder, need."""

import json
import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CELLS = json.loads((ROOT / "examples/colab.ipynb").read_text("utf-8"))["cells"]
NOTEBOOK = "".join(line for cell in CELLS for line in cell["source"])
PAGES = {
    "docs/how-to/docker.md": r"pip install --no-cache-dir (?!--no-index)(.+)",
    "docs/how-to/colab.md": r"%pip install --quiet (?!--no-index)(.+)",
}
INSTALLED = {
    **{
        page: re.search(form, (ROOT / page).read_text("utf-8"))[1].replace("'", "").split()
        for page, form in PAGES.items()
    },
    "examples/colab.ipynb": re.findall(r'"([^"]+)"', re.search(r"others = \[(.+)\]", NOTEBOOK)[1]),
}
BROUGHT_BY_TORCH = {"torch", "numpy", "triton"}


def needs(given: list[str], found: set[tuple[str, str]] | None = None) -> set[str]:
    """Return the names of what pip installs for requirements, by the metadata of what is installed here."""
    found = set() if found is None else found
    for each in map(Requirement, given):
        name = canonicalize_name(each.name)
        for extra in {"", *each.extras}:
            if (name, extra) not in found and name not in BROUGHT_BY_TORCH:
                found.add((name, extra))
                asked = [Requirement(text) for text in requires(name) or ()]
                needs([str(r) for r in asked if not r.marker or r.marker.evaluate({"extra": extra})], found)
    return {name for name, _ in found}


LT = {name for name in needs(["lt"]) if name != "lt" and not name.startswith("lt-")}


def test_lt_needs_others():
    assert {"jsonargparse", "typeshed-client", "rich", "tensorboard"} <= LT


@pytest.mark.parametrize("page", INSTALLED)
def test_the_line_for_the_index_brings_all_that_lt_needs_of_others(page):
    assert not LT - needs(INSTALLED[page])


def test_a_folder_for_a_machine_without_internet_holds_what_jsonargparse_needs():
    text = (ROOT / "docs/how-to/colab.md").read_text("utf-8")
    wheels = set(re.search(r"pip download --no-deps -d lt-wheels ([^`]+)`", text)[1].split())
    assert (
        needs(["jsonargparse[signatures,shtab]"]) - needs(["tensorboard", "pyyaml"]) - {"typing-extensions"} <= wheels
    )
