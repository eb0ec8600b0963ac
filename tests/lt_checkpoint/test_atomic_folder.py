"""Folders are complete or not there, and a kill while one is replaced leaves one that is found."""

import os
from pathlib import Path

import pytest

from lt_checkpoint import CheckpointError, TorchCheckpointIO
from lt_checkpoint._atomic_folder import clean_folders, draft_of, held, put_in_place, remove_folder, standing


@pytest.fixture
def folder(tmp_path):
    def make(name):
        made = tmp_path / name
        made.mkdir()
        (made / "part").write_text(made.name)
        return made

    return make


def names(path):
    return sorted(entry.name for entry in path.iterdir())


class Killed(BaseException):
    pass


def kill_at(monkeypatch, number):
    """Stop at the rename of this number, counted from 0."""
    rename, left = Path.rename, [number]

    def until(self, target):
        if not left[0]:
            raise Killed
        left[0] -= 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", until)


def test_a_kill_between_the_two_renames_leaves_the_old_folder_where_it_is_found(folder, tmp_path, monkeypatch):
    target = folder("last.ckpt")
    with monkeypatch.context() as patched:
        kill_at(patched, 1)
        with pytest.raises(Killed):
            put_in_place(folder(draft_of(target).name), target)
    assert (standing(target) / "part").read_text() == "last.ckpt"
    assert standing(target) in tmp_path.glob("*.ckpt")
    assert [path.name for path in clean_folders(tmp_path)] == [".last.ckpt.partial"]
    assert (standing(target) / "part").read_text() == "last.ckpt"
    put_in_place(folder("new"), target)
    assert (standing(target) / "part").read_text() == "new"
    assert names(tmp_path) == ["last.ckpt"]


def test_a_file_takes_the_place_of_a_folder_of_shards_of_the_same_name_when_it_is_complete(
    folder, tmp_path, monkeypatch
):
    target, io = folder("last.ckpt"), TorchCheckpointIO()
    (target / "rest.ckpt").touch()
    with pytest.raises(CheckpointError, match="is plain data and tensors"):
        io.save_checkpoint({"state_dict": object()}, target)
    assert (target / "part").exists()
    with monkeypatch.context() as patched:
        kill_at(patched, 1)
        with pytest.raises(Killed):
            io.save_checkpoint({"epoch": 1}, target)
    assert (standing(target) / "part").read_text() == "last.ckpt"
    standing(target).rename(target)
    io.save_checkpoint({"epoch": 1}, target)
    assert io.load_checkpoint(target) == {"epoch": 1}
    folder(".last.old.ckpt")  # of a kill after the second rename
    io.clean(tmp_path)
    assert names(tmp_path) == ["last.ckpt"]


def test_what_was_replaced_goes_at_the_next_start_where_a_kill_left_it(folder, tmp_path):
    target = folder("last.ckpt")
    folder(".last.old.ckpt")
    folder(".other.old.ckpt")
    assert standing(target) == target
    assert [path.name for path in clean_folders(tmp_path)] == [".last.old.ckpt"]
    assert names(tmp_path) == [".other.old.ckpt", "last.ckpt"]
    put_in_place(folder("new"), tmp_path / "other.ckpt")
    assert names(tmp_path) == ["last.ckpt", "other.ckpt"]


def test_a_folder_without_an_ending_is_replaced_too(folder, tmp_path):
    target = folder("run")
    folder(".run.old")
    put_in_place(folder("new"), target)
    assert names(tmp_path) == ["run"]


def test_a_link_is_replaced_or_removed_and_what_it_leads_to_stays(folder, tmp_path):
    target, link = folder("a.ckpt"), tmp_path / "last.ckpt"
    link.symlink_to(target)
    put_in_place(folder("new"), link)
    assert [(link / "part").read_text(), (target / "part").read_text()] == ["new", "a.ckpt"]
    second = tmp_path / "second.ckpt"
    second.symlink_to(target)
    remove_folder(second)
    assert names(tmp_path) == ["a.ckpt", "last.ckpt"]


def test_a_folder_that_is_removed_never_stands_half_under_its_name(folder, tmp_path, monkeypatch):
    target, seen = folder("a.ckpt"), []
    monkeypatch.setattr("shutil.rmtree", lambda path: seen.append((Path(path).name, target.exists())))
    remove_folder(target)
    assert seen == [(".a.ckpt.partial", False)]


@pytest.mark.skipif(os.name == "nt", reason="needs locks")
def test_a_folder_that_is_being_written_is_not_cleaned(folder, tmp_path):
    draft = folder(".a.ckpt.partial")
    with held(draft):
        assert clean_folders(tmp_path) == []
    assert clean_folders(tmp_path) == [draft]


def test_what_is_not_ours_stays(tmp_path, folder):
    folder(".git")
    (tmp_path / ".notes.partial").write_text("a file")
    assert clean_folders(tmp_path) == []


def test_the_present_folder_is_named_by_a_dot_too(folder, monkeypatch):
    monkeypatch.chdir(folder("model"))
    assert standing(Path()).resolve() == Path.cwd()
