"""What an error says about installing something works where it is read."""

import json

import pytest

from lt_core import plugins


@pytest.fixture
def from_place(monkeypatch):
    """Return a function: lt-core was installed from this URL, in an environment with or without pip."""

    def place(url, *, pip=True):
        noted = None if url is None else json.dumps({"url": url})
        monkeypatch.setattr(plugins, "distribution", lambda name: type("Dist", (), {"read_text": lambda *_: noted}))
        monkeypatch.setattr(plugins.PathFinder, "find_spec", lambda name: object() if pip else None)
        plugins._origin.cache_clear()

    yield place
    plugins._origin.cache_clear()


def test_from_an_index_a_package_is_named(from_place):
    from_place(None)
    assert plugins.install_hint("lt-callbacks[rich]") == "pip install 'lt-callbacks[rich]'"


def test_an_environment_of_uv_has_no_pip(from_place):
    from_place(None, pip=False)
    assert plugins.install_hint("lt-data") == "uv pip install lt-data"


def test_from_a_clone_it_is_the_folder_beside(from_place, tmp_path):
    (tmp_path / "lt-cli").mkdir()
    from_place((tmp_path / "lt-core").as_uri())
    assert plugins.install_hint("lt-cli[plot]") == f"pip install '{tmp_path}/lt-cli[plot]'"
    assert plugins.install_hint("lt-of-a-stranger") == "pip install lt-of-a-stranger"
    assert plugins.install_hint("onnxscript") == "pip install onnxscript"


def test_from_wheels_it_is_among_the_wheels(from_place, tmp_path):
    from_place((tmp_path / "lt_core-0.1.0-py3-none-any.whl").as_uri())
    assert plugins.install_hint("lt-data") == f"pip install --find-links {tmp_path} lt-data"
