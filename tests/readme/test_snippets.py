"""The Python blocks of every README and docs page run as they stand; the blocks of one page share their names.

A block that cannot run here (it starts processes, needs a GPU) has the line `<!-- not run: why -->` above it. A block
that begins indented continues the class of the block before it.
"""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lt  # noqa: F401  (its finder is not undone with what a page makes importable)
from lt_core import errors

ROOT = Path(__file__).parents[2]
INSTALLED = runpy.run_path(str(ROOT / "tools" / "packages.py"))["installed"]()  # an engine's library is not
READMES = sorted(ROOT / "packages" / package.name / "README.md" for package in INSTALLED)
PAGES = [ROOT / "README.md", *READMES, *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(
    r"^(?P<left_out><!-- not run: [^\n]+ -->\n+)?```python[^\n]*\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


def blocks(page):
    """Return the page's blocks, each with as many empty lines before it as the page has, for right line numbers."""
    text = page.read_text("utf-8")
    found = []
    for match in BLOCK.finditer(text):
        before = text.count("\n", 0, match.start("code"))
        if match["left_out"]:
            continue
        if match["code"].startswith(" "):
            found[-1] += "\n" * (before - found[-1].count("\n")) + match["code"]
        else:
            found.append("\n" * before + match["code"])
    return found


@pytest.fixture(autouse=True)
def imports_as_before(monkeypatch):
    """What a page makes importable (lt_compat.install) is not there for other tests, and what it silences is heard."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(errors, "_silenced", {*errors._silenced})
    monkeypatch.setattr(errors.LtError, "__init__", errors.LtError.__init__)  # under compat errors are Lightning's too
    monkeypatch.delenv("LT_SILENCE", raising=False)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("lightning", "pytorch_lightning")]:
        del sys.modules[name]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page, tmp_path, monkeypatch):
    snippet = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", snippet)  # classes of the page know the module they are from
    monkeypatch.chdir(tmp_path)
    for code in blocks(page):
        exec(compile(code, str(page), "exec"), vars(snippet))
