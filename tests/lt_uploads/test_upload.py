"""Uploads in the background: in order, complete or not there, tried again; what stays there has a rule of its own."""

import pickle
import threading

import fsspec
import pytest
import torch
from tests.patience import PATIENCE

import lt_uploads as upload
from lt_checkpoint import ShardedCheckpointIO, load
from lt_core.errors import ConfigError, LtWarning
from lt_core.ranks import Ranks
from lt_testing import CheckpointKit
from lt_uploads import UploadingCheckpointIO


class TestFilesThatAreUploaded(CheckpointKit):
    def make_io(self):
        return UploadingCheckpointIO("memory://kit")


@pytest.fixture
def there(request):
    """Return the URL of an empty remote folder."""
    url = f"memory://{request.node.name}"
    yield url
    system = fsspec.filesystem("memory")
    if system.exists(url):
        system.rm(url, recursive=True)


def names(url):
    system = fsspec.filesystem("memory")
    return sorted(entry["name"].rpartition("/")[2] for entry in system.ls(url)) if system.exists(url) else []


class Net:
    """The way to the remote folder, which can be cut."""

    def __init__(self, monkeypatch):
        self.open, self.tries, self.broken = threading.Event(), 0, 0
        self.open.set()
        self.write = upload.write_remote
        monkeypatch.setattr(upload, "write_remote", self.write_remote)

    def let_go(self, io):
        self.open.set()
        io.teardown()

    def write_remote(self, *args):
        assert self.open.wait(PATIENCE)
        self.tries += 1
        if self.broken:
            self.broken -= 1
            raise ConnectionError("no route")
        self.write(*args)


@pytest.fixture
def net(monkeypatch):
    return Net(monkeypatch)


def saved(io, tree, path):
    io.save_checkpoint(tree, path)
    io.teardown()


def test_what_is_saved_and_deleted_here_is_so_there(tmp_path, there):
    io = UploadingCheckpointIO(there)
    for number in range(3):
        io.save_checkpoint({"step": number}, tmp_path / f"{number}.ckpt")
    io.remove_checkpoint(tmp_path / "0.ckpt")
    io.point_last(tmp_path / "2.ckpt", tmp_path / "last.ckpt")
    io.teardown()
    assert names(there) == ["1.ckpt", "2.ckpt", "last.ckpt"]
    assert load(f"{there}/last.ckpt") == {"step": 2}
    assert not io.upload_errors


def test_so_many_of_the_newest_stay_whatever_is_deleted_here(tmp_path, there):
    io = UploadingCheckpointIO(there, keep=2)
    for number in range(4):
        io.save_checkpoint({"step": number}, tmp_path / f"{number}.ckpt")
        io.remove_checkpoint(tmp_path / f"{number - 1}.ckpt")
        io.add_name(tmp_path / f"{number}.ckpt", tmp_path / "last.ckpt")
    io.teardown()
    assert names(there) == ["2.ckpt", "3.ckpt", "last.ckpt"]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["3.ckpt", "last.ckpt"]


def test_all_can_stay(tmp_path, there):
    io = UploadingCheckpointIO(there, keep="all")
    for number in range(3):
        io.save_checkpoint({"step": number}, tmp_path / "same.ckpt" if number == 2 else tmp_path / f"{number}.ckpt")
        io.remove_checkpoint(tmp_path / "0.ckpt")
    io.teardown()
    assert names(there) == ["0.ckpt", "1.ckpt", "same.ckpt"]


def test_training_does_not_wait_and_a_file_that_is_deleted_here_arrives(tmp_path, there, net):
    net.open.clear()
    io = UploadingCheckpointIO(there, keep="all")
    io.save_checkpoint({"w": torch.arange(5)}, tmp_path / "a.ckpt")
    io.wait()  # what the loop does before the next save
    io.remove_checkpoint(tmp_path / "a.ckpt")
    io.wait()
    assert not (tmp_path / "a.ckpt").exists()
    assert names(there) == []
    net.open.set()
    io.wait_for_uploads()
    assert load(f"{there}/a.ckpt")["w"].tolist() == [0, 1, 2, 3, 4]


def test_of_what_waits_under_one_name_the_newest_is_uploaded(tmp_path, there, net):
    net.open.clear()
    io = UploadingCheckpointIO(there)
    for number in range(5):
        io.save_checkpoint({"step": number}, tmp_path / "last.ckpt")
        io.wait()
    net.open.set()
    io.teardown()
    assert load(f"{there}/last.ckpt") == {"step": 4}
    assert net.tries <= 2


def test_nothing_is_deleted_there_while_something_newer_waits(tmp_path, there, net, monkeypatch):
    deleted = []
    monkeypatch.setattr(upload, "remove_remote", lambda url, options: deleted.append((url[-6], names(there))))
    io = UploadingCheckpointIO(there)
    saved(io, {"step": 0}, tmp_path / "0.ckpt")
    net.open.clear()
    for number in (1, 2, 3):  # each replaces the one before, faster than it can be uploaded
        io.save_checkpoint({"step": number}, tmp_path / f"{number}.ckpt")
        io.wait()
        io.remove_checkpoint(tmp_path / f"{number - 1}.ckpt")
        io.wait()
    net.let_go(io)
    assert deleted
    assert all("3.ckpt" in found for _, found in deleted)


def test_an_upload_that_fails_is_tried_again(tmp_path, there, net):
    net.broken = 2
    io = UploadingCheckpointIO(there, pause=0.001)
    io.save_checkpoint({"step": 1}, tmp_path / "a.ckpt")
    io.teardown()
    assert names(there) == ["a.ckpt"]
    assert net.tries == 3


def test_what_goes_on_failing_is_said_once_and_nothing_older_goes(tmp_path, there, net):
    io = UploadingCheckpointIO(there, retries=1, pause=0.001)
    io.save_checkpoint({"step": 0}, tmp_path / "0.ckpt")
    io.wait_for_uploads()
    net.broken = 100
    net.open.clear()
    for number in (1, 2):
        io.save_checkpoint({"step": number}, tmp_path / f"{number}.ckpt")
        io.remove_checkpoint(tmp_path / f"{number - 1}.ckpt")
        io.wait()
    with pytest.warns(LtWarning, match=r"1\.ckpt is not uploaded after 2 tries: no route.*LT420") as said:
        net.let_go(io)
    assert len(said) == 1
    assert names(there) == ["0.ckpt"]
    assert sorted(io.upload_errors) == [f"{there}/1.ckpt", f"{there}/2.ckpt"]


def test_an_upload_that_is_cut_off_leaves_nothing_that_looks_complete(tmp_path, there, monkeypatch):
    def half(source, to):
        to.write(source.read(100))
        to.flush()
        raise ConnectionError("cut off")

    io = UploadingCheckpointIO(there, retries=0)
    io.save_checkpoint({"step": 0}, tmp_path / "a.ckpt")
    io.wait_for_uploads()
    monkeypatch.setattr(upload, "_copy", half)
    with pytest.warns(LtWarning, match="cut off"):
        saved(io, {"step": 1}, tmp_path / "a.ckpt")
    assert names(there) == ["a.ckpt"]
    assert load(f"{there}/a.ckpt") == {"step": 0}


def test_it_crosses_to_other_processes_by_its_settings(tmp_path, there):
    io = pickle.loads(pickle.dumps(UploadingCheckpointIO(there, keep=1)))
    for number in range(2):
        io.save_checkpoint({"step": number}, tmp_path / f"{number}.ckpt")
    io.teardown()
    assert names(there) == ["1.ckpt"]


@pytest.mark.parametrize("sent", [False, True])
def test_a_copy_takes_at_most_the_memory_that_it_may(sent, tmp_path):
    io = UploadingCheckpointIO("memory://bound", max_memory=4000)
    io = pickle.loads(pickle.dumps(io)) if sent else io
    with pytest.warns(LtWarning, match="does not fit"):
        io.save_checkpoint({"w": torch.ones(1001)}, tmp_path / "large.ckpt")
    assert not io.is_writing()
    assert (tmp_path / "large.ckpt").exists()
    io.teardown()


@pytest.mark.parametrize("keep", [0, True, "best"])
def test_a_rule_that_there_is_not_is_refused(keep):
    with pytest.raises(ConfigError, match="expected 'same'"):
        UploadingCheckpointIO("memory://x", keep=keep)


def test_what_one_folder_deletes_another_ones_file_of_the_same_name_keeps(tmp_path, there):
    io = UploadingCheckpointIO(there)
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        io.save_checkpoint({"step": number}, tmp_path / folder / "best.ckpt")
    io.remove_checkpoint(tmp_path / "one" / "best.ckpt")
    io.teardown()
    assert load(f"{there}/best.ckpt") == {"step": 1}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_of_a_folder_of_shards_nothing_is_uploaded(tmp_path, there):
    pytest.importorskip("numpy")  # of the extra [sharded]
    io = UploadingCheckpointIO(there)
    ShardedCheckpointIO(io).save_shards({"state_dict": {"w": torch.ones(3)}}, tmp_path / "parts.ckpt", Ranks())
    io.teardown()
    assert names(there) == []
