"""Every package says its version."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
PLUGINS = sorted(path.parent.name for path in ROOT.glob("examples/plugins/*/pyproject.toml"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_its_version(package):
    assert import_module(package.replace("-", "_")).__version__ == version(package)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plug_in_that_others_copy_does_too(plugin):
    file = ROOT / "examples" / "plugins" / plugin / "src" / plugin.replace("-", "_") / "__init__.py"
    assert f'__version__ = version("{plugin}")' in file.read_text("utf-8")
