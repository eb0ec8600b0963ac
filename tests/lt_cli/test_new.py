import ast
import tomllib

import pytest

from lt_cli.command import CommandError
from lt_cli.commands import new
from lt_cli.main import main


def test_a_project_is_written_with_its_name_everywhere(tmp_path, capsys):
    assert main(["new", "project", "spirals", "--into", str(tmp_path)]) == 0
    folder = tmp_path / "spirals"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"run.yaml", "pyproject.toml", "spirals/model.py", "spirals/data.py", "tests/test_training.py"} <= files
    assert "class_path: spirals.model.Classifier" in (folder / "run.yaml").read_text()
    assert "lt fit --config run.yaml" in capsys.readouterr().out
    assert not [path for path in folder.rglob("*") if path.is_file() and "$" in path.read_text()]


def test_a_strategy_is_a_package_with_an_entry_point_and_the_kit(tmp_path):
    folder = new.create("strategy", "ring-o", tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert folder.name == project["project"]["name"] == "lt-strategy-ring-o"
    assert project["project"]["entry-points"]["lt.strategies"] == {"ring_o": "lt_strategy_ring_o:RingO"}
    assert "StrategyConformance" in (folder / "tests" / "test_strategy.py").read_text()


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("accelerator", "lt.accelerators"),
        ("callback", "lt.callbacks"),
        ("checkpoint", "lt.checkpoint_io"),
        ("launcher", "lt.launchers"),
        ("logger", "lt.loggers"),
        ("step", "lt.steps"),
    ],
)
def test_a_plugin_is_a_package_that_needs_lt_core_alone(kind, group, tmp_path):
    folder = new.create(kind, "ring-o", tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][group] == {"ring_o": f"lt_{kind}_ring_o:RingO"}
    assert [need.partition(">")[0] for need in project["dependencies"]] == ["lt-core"]


@pytest.mark.parametrize(("pip", "line"), [(object(), "  pip install"), (None, "  uv pip install")])
def test_the_next_step_is_one_that_this_environment_has(pip, line, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(new, "find_spec", lambda name: pip)
    assert main(["new", "strategy", "ring", "--into", str(tmp_path)]) == 0
    assert f"\n{line} -e" in capsys.readouterr().out


@pytest.mark.parametrize("kind", new.KINDS)
def test_what_is_written_is_python(kind, tmp_path):
    for file in new.create(kind, "sample", tmp_path).rglob("*.py"):
        ast.parse(file.read_text())


@pytest.mark.parametrize("name", ["3d", "class", "a b", "torch", "json", "größe"])
def test_a_name_that_cannot_be_imported_is_refused(name, tmp_path):
    with pytest.raises(CommandError, match="LT162"):
        new.create("project", name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_stays_as_it_is(tmp_path, capsys):
    (tmp_path / "spirals").mkdir()
    assert main(["new", "project", "spirals", "--into", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert not list((tmp_path / "spirals").iterdir())
