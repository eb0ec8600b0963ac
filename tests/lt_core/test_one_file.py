"""The default of ``CheckpointIO`` without lt-checkpoint: one plain file, complete or not there, read without code."""

import pickle

import pytest
import torch

from lt_core import CheckpointError
from lt_core.checkpoint import OneFile
from lt_core.files import atomic_file
from lt_core.files.checkpoint_header import Header

io = OneFile()


class Evil:
    def __reduce__(self):
        return print, ("code from a checkpoint ran",)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ckpt"


def test_plain_torch_opens_it(path):
    io.save_checkpoint({"w": torch.arange(3), "epoch": 1}, path)
    assert torch.load(path, weights_only=True)["w"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("ending", [b"", b"\0" * 64])
def test_a_file_of_which_a_byte_has_changed_or_some_are_gone_is_damaged(path, ending):
    io.save_checkpoint({"w": torch.arange(3000)}, path)
    whole = bytearray(path.read_bytes())
    for damaged in (whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:], whole[: len(whole) // 2] + ending):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"a\.ckpt is damaged.*LT657"):
            io.verify(path)


def test_no_code_of_a_file_runs(path, capsys):
    torch.save({"w": Evil()}, path)
    for action in (io.load_checkpoint, io.verify):
        with pytest.raises(CheckpointError, match=r"(?s)was not read: .*lt-checkpoint.*LT658"):
            action(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match="LT657"):
        io.load_checkpoint(path)
    assert io.header(path) is None
    assert capsys.readouterr().out == ""


def test_a_save_that_fails_leaves_the_old_file(path, monkeypatch):
    io.save_checkpoint({"n": 1}, path)

    def full(tree, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match="No space left"):
        io.save_checkpoint({"n": 2}, path)
    assert io.load_checkpoint(path) == {"n": 1}
    assert [file.name for file in path.parent.iterdir()] == ["a.ckpt"]


def test_the_header_is_read(path):
    header = Header.of_new_run().next(3, 1, weights_only=False)
    io.save_checkpoint({**header.entry(), "w": torch.ones(3)}, path)
    assert io.header(path) == header


@pytest.mark.parametrize(
    "ask",
    [
        lambda: io.save_checkpoint({}, "s3://bucket/a.ckpt"),
        lambda: io.load_checkpoint("s3://bucket/a.ckpt"),
        lambda: io.exists("s3://bucket/a.ckpt"),
        lambda: io.times("s3://bucket"),
        lambda: io.clean("s3://bucket"),
        lambda: io.remove_checkpoint("s3://bucket/a.ckpt"),
    ],
)
def test_a_url_is_an_error_that_names_the_package(ask):
    with pytest.raises(CheckpointError, match=r"come with lt-checkpoint: .*install .*lt-checkpoint.*LT630"):
        ask()


def test_a_folder_is_an_error_that_names_the_package(tmp_path):
    with pytest.raises(CheckpointError, match=r"is a folder.*lt-checkpoint.*LT659"):
        io.load_checkpoint(tmp_path)


def test_last_is_a_link_and_another_name_is_the_same_file(tmp_path, monkeypatch):
    io = OneFile()
    monkeypatch.chdir(tmp_path)
    io.save_checkpoint({"epoch": 1}, "runs/one.ckpt")
    io.point_last("runs/one.ckpt", tmp_path / "last.ckpt")
    io.add_name("runs/one.ckpt", tmp_path / "best.ckpt")
    assert str((tmp_path / "last.ckpt").readlink()) == "runs/one.ckpt"
    assert (tmp_path / "best.ckpt").samefile("runs/one.ckpt")
    assert not (tmp_path / "best.ckpt").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "last.ckpt", "best.ckpt"}


def test_the_names_of_new_folders_are_synced_before_the_file_counts_as_saved(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic_file, "sync_directory", lambda folder: synced.append(folder.relative_to(tmp_path)))
    OneFile().save_checkpoint({"a": 1}, tmp_path / "x" / "y" / "a.ckpt")
    assert list(map(str, synced)) == [".", "x", "x/y"]
    OneFile().save_checkpoint({"a": 1}, tmp_path / "x" / "y" / "b.ckpt")
    assert list(map(str, synced[3:])) == ["x/y"]
