"""tools/release.py on a small workspace of two packages, `low` and `high`, in a git repository of its own."""

import subprocess
import zipfile
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


@pytest.mark.parametrize(
    ("tags", "range_", "oldest"),
    [
        ([], ">=0.1,<0.3", None),
        (["0.1.0", "0.2.0", "0.10.0"], ">=0.1,<0.3", "lt-core-v0.1.0"),
        (["0.1.0", "0.2.0", "0.10.0"], ">=0.2,<0.11", "lt-core-v0.2.0"),
        (["0.1.0", "0.2.0"], ">=0.3,<0.5", None),  # it needs today's, which is not published yet
    ],
)
def test_the_oldest_core_is_the_oldest_tag_that_a_package_admits(release, tmp_path, tags, range_, oldest):
    add_package(tmp_path, "lt-core", "")
    add_package(tmp_path, "lt-high", f'"lt-core{range_}"')
    for tag in tags:
        git(tmp_path, "tag", f"lt-core-v{tag}")
    assert release.oldest_core("lt-high") == oldest
    assert release.oldest_core("lt-core") is None


def test_the_wheel_of_a_tag_holds_what_was_there_then(release, tmp_path):
    package = tmp_path / "packages" / "low"
    (package / "src" / "low").mkdir(parents=True)
    (package / "src" / "low" / "__init__.py").write_text("NAME = 'then'\n")
    (package / "pyproject.toml").write_text(
        (package / "pyproject.toml").read_text()
        + '\n[build-system]\nrequires = ["uv_build>=0.9,<1"]\nbuild-backend = "uv_build"\n'
    )
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "all"\nversion = "0"\n\n[tool.uv.workspace]\nmembers = ["packages/low"]\n'
    )
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Then")
    git(tmp_path, "tag", "low-v0.1.0")
    (package / "src" / "low" / "__init__.py").write_text("NAME = 'now'\n")
    wheel = release.wheel_of("low-v0.1.0", tmp_path / "wheels")
    with zipfile.ZipFile(wheel) as file:
        assert file.read("low/__init__.py") == b"NAME = 'then'\n"
    assert "tree" not in git(tmp_path, "worktree", "list").partition("\n")[2]


def test_a_release_runs_the_tests_on_ranks_and_beside_the_oldest_core(release, monkeypatch):
    ran = []
    monkeypatch.setattr(release, "run", lambda *command: ran.append(" ".join(command[2:])) or "")
    release.test_workspace(release.plan("high", "minor"))
    assert "nox -s isolated(high)" in ran
    assert "nox -s oldest-core -- high" in ran
    assert "nox -s tests-ddp tests-fsdp conformance" in ran


def test_a_published_dependent_is_read_from_its_newest_tag(release, tmp_path):
    git(tmp_path, "tag", "high-v0.1.0")
    project = tmp_path / "packages" / "high" / "pyproject.toml"
    project.write_text(project.read_text().replace("<0.3", "<0.5"))
    with pytest.raises(release.ReleaseError, match=r"high-v0\.1\.0: low<0\.3"):
        release.check_ranges(release.plan("low", "0.3.0"))


@pytest.mark.parametrize("base", ["the snapshot", "the tag"])
def test_what_breaks_users_code_needs_a_raised_minor_and_a_changelog_entry(release, tmp_path, base):
    api, fragment = tmp_path / "packages" / "low" / "api.txt", tmp_path / "packages" / "low" / "changelog.d"
    kept = tmp_path / "tests" / "workspace" / "of_0_1" / "low.txt"
    kept.parent.mkdir(parents=True)
    for path in (api, kept):
        path.write_text("low:\n    make(name: str) -> None\n")
    if base == "the tag":
        kept.write_text("")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", "Released")
        git(tmp_path, "tag", "low-v0.1.0")
    release.check_breaks(release.plan("low", "patch"))
    api.write_text("low:\n")
    with pytest.raises(release.ReleaseError, match=r"raise the minor version for:\n  low:make is gone"):
        release.check_breaks(release.plan("low", "patch"))
    with pytest.raises(release.ReleaseError, match=r"no fragment changelog.d/\*.removal.md"):
        release.check_breaks(release.plan("low", "minor"))
    (fragment / "2.removal.md").write_text("make is gone.\n")
    release.check_breaks(release.plan("low", "minor"))


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
