"""Every package says its version."""

import runpy
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKSPACE = runpy.run_path(str(ROOT / "tools" / "packages.py"))
PACKAGES = sorted(package.name for package in WORKSPACE["installed"]())
OTHERS = [*ROOT.glob("examples/plugins/*"), *(ROOT / "packages" / name for name in WORKSPACE["engines"]())]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_its_version(package):
    assert import_module(package.replace("-", "_")).__version__ == version(package)


@pytest.mark.parametrize("project", OTHERS, ids=lambda project: project.name)
def test_one_that_is_not_installed_here_does_too(project):
    file = project / "src" / project.name.replace("-", "_") / "__init__.py"
    assert f'__version__ = version("{project.name}")' in file.read_text("utf-8")
