"""tools/release.py on a small workspace of two packages, `low` and `high`, in a git repository of its own."""

import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

packaging = pytest.importorskip("packaging", reason="in the release group of the workspace")


@pytest.fixture
def release(tmp_path, monkeypatch):
    spec = spec_from_file_location("release", Path(__file__).parents[2] / "tools" / "release.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    add_package(tmp_path, "low", "")
    add_package(tmp_path, "high", '"low>=0.1,<0.3"')
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "Test")
    git(tmp_path, "config", "user.email", "test@example.invalid")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "First")
    return module


def add_package(root, name, requires):
    folder = root / "packages" / name
    (folder / "changelog.d").mkdir(parents=True)
    (folder / "changelog.d" / "1.feature.md").write_text("Something new.\n")
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "0.1.0"\ndependencies = [{requires}]\n\n'
        f'[tool.towncrier]\nname = "{name}"\ndirectory = "changelog.d"\nfilename = "CHANGELOG.md"\n'
    )


def git(root, *command):
    return subprocess.run(["git", *command], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("step", "new"), [("major", "1.0.0"), ("minor", "0.2.0"), ("patch", "0.1.1"), ("0.5.0", "0.5.0")]
)
def test_a_step_names_the_next_version(release, step, new):
    assert str(release.plan("low", step).new) == new


def test_an_unknown_package_lists_the_known_ones(release):
    with pytest.raises(release.ReleaseError, match="there are high, low"):
        release.plan("lwo", "minor")


def test_only_a_first_release_keeps_its_version(release, tmp_path):
    assert release.plan("low", "0.1.0").tag == "low-v0.1.0"
    git(tmp_path, "tag", "low-v0.1.0")
    with pytest.raises(release.ReleaseError, match=r"expected a version above 0\.1\.0"):
        release.plan("low", "0.1.0")


def test_a_dependent_in_the_workspace_that_does_not_admit_the_version_stops_the_release(release):
    release.check_ranges(release.plan("low", "0.2.9"))
    with pytest.raises(release.ReleaseError, match=r"packages/high/pyproject\.toml: low"):
        release.check_ranges(release.plan("low", "0.3.0"))


def test_a_published_dependent_is_read_from_its_newest_tag(release, tmp_path):
    git(tmp_path, "tag", "high-v0.1.0")
    project = tmp_path / "packages" / "high" / "pyproject.toml"
    project.write_text(project.read_text().replace("<0.3", "<0.5"))
    with pytest.raises(release.ReleaseError, match=r"high-v0\.1\.0: low<0\.3"):
        release.check_ranges(release.plan("low", "0.3.0"))


def test_a_changed_tree_stops_the_release(release, tmp_path):
    (tmp_path / "packages" / "low" / "new.py").write_text("")
    with pytest.raises(release.ReleaseError, match="new.py"):
        release.check_tree(release.plan("low", "minor"))


def test_a_dry_run_writes_nothing(release, tmp_path, capsys):
    pytest.importorskip("towncrier")
    release.make(release.plan("low", "minor"), dry_run=True, tests=False)
    assert "Something new." in capsys.readouterr().out
    assert git(tmp_path, "status", "--porcelain") == ""


def test_a_release_is_one_commit_and_one_tag(release, tmp_path, monkeypatch):
    pytest.importorskip("towncrier")
    monkeypatch.setattr(release, "build_files", lambda release: None)
    release.make(release.plan("low", "minor"), dry_run=False, tests=False)
    assert git(tmp_path, "tag").split() == ["low-v0.2.0"]
    assert git(tmp_path, "rev-list", "--count", "HEAD").strip() == "2"
    assert 'version = "0.2.0"' in (tmp_path / "packages" / "low" / "pyproject.toml").read_text()
    assert "Something new." in (tmp_path / "packages" / "low" / "CHANGELOG.md").read_text()


def test_a_failure_puts_the_package_back(release, tmp_path, monkeypatch):
    pytest.importorskip("towncrier")

    def fail(release_):
        raise release.ReleaseError("the builds differ")

    monkeypatch.setattr(release, "build_files", fail)
    with pytest.raises(release.ReleaseError, match="differ"):
        release.make(release.plan("low", "minor"), dry_run=False, tests=False)
    assert git(tmp_path, "status", "--porcelain") == ""
    assert git(tmp_path, "tag") == ""
