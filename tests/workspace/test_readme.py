"""README: badges that are true, commands that stand alone, code that no page cuts."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = [match[1] for match in re.finditer(r"^```\w+\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)]


def badge(name):
    return re.search(r"<title>(.*)</title>", (ROOT / "docs" / "images" / f"badge-{name}.svg").read_text("utf-8"))[1]


@pytest.mark.parametrize("package", sorted(path.name for path in (ROOT / "packages").iterdir() if path.is_dir()))
def test_badges_say_what_each_package_says(package):
    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]
    assert badge("python") == f"python: {project['requires-python'].removeprefix('>=')}+"
    assert badge("licence") == f"licence: {project['license']}"
    assert all(
        badge("torch") == f"torch: {need[7:]}+" for need in project["dependencies"] if need.startswith("torch>=")
    )


def test_badges_lie_in_the_repository():
    assert not re.findall(r"!\[[^\]]*\]\(https?:", README)


@pytest.mark.parametrize("command", ["pip install uv && uv run examples/digits.py", "pip install uv && uv run nox"])
def test_a_command_that_sets_everything_up_is_one_line(command):
    assert re.search(rf"^    {re.escape(command)}$", README, re.MULTILINE)


def test_no_line_of_code_is_cut_where_a_page_is_838_pixels_wide():
    assert not [line for block in BLOCKS for line in block.splitlines() if len(line) > 88]


def test_the_comparison_with_a_loop_by_hand_fits_66_columns():
    comparison = README.partition("## What it replaces")[2].partition("\n## ")[0]
    assert comparison.count("```python") == 2
    assert max(len(line) for block in BLOCKS if block in comparison for line in block.splitlines()) <= 66
