"""All packages can be published, in the order of PUBLISHING.md: the part of `nox -s release` that needs no index."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("packaging", reason="in the release group of the workspace")
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECTS = {
    path.parent.name: tomllib.loads(path.read_text("utf-8"))["project"]
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
ORDER = re.findall(r"^\| \d+ \| `([\w-]+)` \|", (ROOT / "PUBLISHING.md").read_text("utf-8"), re.MULTILINE)
WORKFLOW = (ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8")


def test_the_page_lists_every_package_once():
    assert sorted(ORDER) == sorted(PROJECTS)
    assert runpy.run_path(str(ROOT / "tools" / "packages.py"))["publishing_order"]() == ORDER


@pytest.mark.parametrize("name", PROJECTS)
def test_a_package_is_published_after_what_it_needs(name):
    needed = {Requirement(line).name for line in PROJECTS[name]["dependencies"]} & PROJECTS.keys()
    assert needed <= set(ORDER[: ORDER.index(name)])


@pytest.mark.parametrize("name", PROJECTS)
def test_names_and_versions_are_what_the_index_makes_of_them(name):
    project = PROJECTS[name]
    assert project["name"] == name == canonicalize_name(name, validate=True)
    assert str(Version(project["version"])) == project["version"]
    for extra in project.get("optional-dependencies", {}):
        assert canonicalize_name(extra, validate=True) == extra


@pytest.mark.parametrize("name", PROJECTS)
def test_what_a_package_needs_of_ours_is_there_in_a_version_and_with_the_extras_that_it_names(name):
    project = PROJECTS[name]
    lines = [*project["dependencies"], *(line for v in project.get("optional-dependencies", {}).values() for line in v)]
    for need in map(Requirement, lines):
        if need.name in PROJECTS:
            other = PROJECTS[need.name]
            assert need.specifier.contains(other["version"], prereleases=True), need
            assert need.extras <= other.get("optional-dependencies", {}).keys(), need


def test_no_two_names_are_one_to_the_index():
    alike = [
        re.sub("[li]", "1", re.sub(r"[-_.]", "", name)).replace("o", "0") for name in map(str.lower, PROJECTS)
    ]  # as PyPI compares a new name with those that are there
    assert len({*alike}) == len(PROJECTS)


def test_the_page_names_the_workflow_and_the_environment_that_publish():
    page = (ROOT / "PUBLISHING.md").read_text("utf-8")
    assert "`publish.yml`" in page
    assert "environment `{}`".format(*re.search(r"environment: (\w+)", WORKFLOW).groups()) in page
    assert all(f"`{tag}`" in page for tag in re.search(r"tags: \[(.*)\]", WORKFLOW)[1].replace('"', "").split(", "))
