"""Every package says its version."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

PACKAGES = sorted(path.parent.name for path in Path(__file__).parents[2].glob("packages/*/pyproject.toml"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_its_version(package):
    assert import_module(package.replace("-", "_")).__version__ == version(package)
