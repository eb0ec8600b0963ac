"""The commit and the differences of a repository, brought back by git alone."""

import os
import subprocess

import fsspec
import pytest

from lt_core.errors import LtWarning
from lt_profilers import GitState
from lt_testing import CallbackKit, FakeTrainer

NAMES = {f"GIT_{who}_{what}": f"a@b{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder, *words):
    command = ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *words]
    return subprocess.run(command, env=os.environ | NAMES, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    files = {"train.py": "a = 1\n", "src/model.py": "b = 1\n", "data.bin": "old", ".gitignore": "ignored.py\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "One")
    return folder


def kept(folder, run):
    """Start a fit, and return the callback and the text of its newest file."""
    callback, trainer = GitState(folder), FakeTrainer(default_root_dir=str(run))
    callback.on_fit_start(trainer, trainer.lightning_module)
    return callback.state_dict(), (run / callback.state_dict()["patch"]).read_text()


class TestGitState(CallbackKit):
    def make_callback(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init")
        (folder / "a.py").touch()
        git(folder, "add", ".")
        git(folder, "commit", "--allow-empty", "-m", "One")
        return GitState(folder)


def test_git_makes_the_code_of_the_run_again(repository, tmp_path):
    (repository / "train.py").write_text("a = 2  # ü\n")
    (repository / "src" / "new.py").write_text("c = 3\n")
    (repository / "data.bin").write_bytes(bytes(range(256)))
    (repository / "src" / "model.py").unlink()
    (repository / "ignored.py").write_text("secret\n")
    (repository / "notes.txt").write_text("notes\n")
    git(repository, "add", "data.bin")
    state, text = kept(repository / "src", tmp_path / "run")
    assert state["commit"] == git(repository, "rev-parse", "HEAD").strip()
    assert text.startswith(f"# commit {state['commit']}\n# ## main\n")
    assert "# ?? notes.txt\n" in text
    assert "secret" not in text

    again = tmp_path / "again"
    git(tmp_path, "clone", str(repository), str(again))
    git(again, "checkout", state["commit"])
    git(again, "apply", str(tmp_path / "run" / state["patch"]))
    for name in ("train.py", "src/new.py", "data.bin"):
        assert (again / name).read_bytes() == (repository / name).read_bytes()
    assert not (again / "src" / "model.py").exists()


@pytest.mark.parametrize(
    "setting", ["diff.noprefix", "diff.mnemonicPrefix", "diff.relative", "color.diff=always", "diff.upper.textconv=wc"]
)
def test_the_users_settings_of_git_do_not_change_the_file(setting, repository, tmp_path):
    name, _, value = setting.partition("=")
    git(repository, "config", name, value or "true")
    (repository / ".gitattributes").write_text("*.txt diff=upper\n")
    (repository / "train.txt").write_text("a\n")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "Two")
    (repository / "train.txt").write_text("b\n")
    state, _ = kept(repository / "src", tmp_path / "run")
    git(repository, "checkout", ".")
    git(repository, "apply", str(tmp_path / "run" / state["patch"]))
    assert (repository / "train.txt").read_text() == "b\n"


def test_an_edit_in_the_second_of_the_commit_is_kept(repository, tmp_path):
    git(repository, "config", "core.trustctime", "false")
    for text in ("a = 1\n", "a = 2\n"):  # of one size, at one time, and the index is no newer
        (repository / "train.py").write_text(text)
        os.utime(repository / "train.py", (1e9, 1e9))
        if text == "a = 1\n":
            git(repository, "add", ".")
            os.utime(repository / ".git" / "index", (1e9, 1e9))
    _, text = kept(repository, tmp_path / "run")
    assert "+a = 2" in text


def test_a_repository_without_python_files_is_kept_too(repository, tmp_path):
    git(repository, "rm", "-r", "--cached", "train.py", "src")
    (repository / "train.py").unlink()
    (repository / "src" / "model.py").unlink()
    git(repository, "commit", "-m", "Two")
    (repository / "data.bin").write_text("new")
    _, text = kept(repository, tmp_path / "run")
    assert "#  M data.bin" in text


def test_index_and_files_are_left_as_they_are(repository, tmp_path):
    (repository / "train.py").write_text("a = 2\n")
    (repository / "new.py").write_text("c = 3\n")
    git(repository, "add", "train.py")
    (repository / "train.py").write_text("a = 3\n")
    before = git(repository, "status", "--porcelain")
    os.utime(repository / "data.bin", (1, 1))  # git status alone would write that into the index
    index = (repository / ".git/index").read_bytes()
    kept(repository, tmp_path / "run")
    assert (repository / ".git/index").read_bytes() == index
    assert git(repository, "status", "--porcelain") == before
    assert git(repository, "show", ":train.py") == "a = 2\n"


def test_the_same_code_has_one_file_and_other_code_another(repository, tmp_path):
    first, _ = kept(repository, tmp_path / "run")
    assert kept(repository, tmp_path / "run")[0] == first
    (repository / "train.py").write_text("a = 2\n")
    second, _ = kept(repository, tmp_path / "run")
    assert second["commit"] == first["commit"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted([first["patch"], second["patch"]])


@pytest.mark.parametrize("why", ["no repository", "no commit", "no git", "no folder"])
def test_where_git_has_nothing_to_say_the_run_goes_on_with_a_warning(why, tmp_path, monkeypatch):
    folder = tmp_path / ("missing" if why == "no folder" else "project")
    (tmp_path / "project").mkdir()
    if why == "no commit":
        git(folder, "init")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    if why == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    callback, trainer = GitState(folder), FakeTrainer(default_root_dir=str(tmp_path / "run"))
    with pytest.warns(LtWarning, match=r"the code of this run is not kept(.|\n)*LT806"):
        callback.on_fit_start(trainer, trainer.lightning_module)
    assert callback.state_dict() == {}
    assert not (tmp_path / "run").exists()


def test_a_run_in_a_remote_folder_has_the_file_there(repository, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    callback, trainer = GitState(repository), FakeTrainer(default_root_dir="memory://git/run")
    callback.on_fit_start(trainer, trainer.lightning_module)
    assert fsspec.filesystem("memory").exists(f"/git/run/{callback.state_dict()['patch']}")
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_where_the_file_cannot_be_written_the_run_goes_on_with_a_warning(repository, tmp_path):
    (tmp_path / "run").touch()
    callback, trainer = GitState(repository), FakeTrainer(default_root_dir=str(tmp_path / "run"))
    with pytest.warns(LtWarning, match=r"git-.*patch could not be written.*LT236"):
        callback.on_fit_start(trainer, trainer.lightning_module)
    assert callback.state_dict() == {}


@pytest.mark.parametrize("given", [{"fast_dev_run": True}, {"is_global_zero": False}])
def test_trial_runs_and_other_ranks_write_nothing(given, repository, tmp_path):
    trainer = FakeTrainer(default_root_dir=str(tmp_path / "run"), **given)
    GitState(repository).on_fit_start(trainer, trainer.lightning_module)
    assert not (tmp_path / "run").exists()
