"""A save that fails or is killed at any of its file operations leaves the old file, or the new one, whole."""

import errno
import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from tests import warm

from lt_core import CheckpointError, CheckpointIO
from lt_core.files import atomic_file
from lt_core.files.atomic_file import clean_leftovers, write_atomically

io = CheckpointIO()
OLD, NEW = {"n": 1, "w": torch.zeros(1000)}, {"n": 2, "w": torch.ones(1000)}
OPERATIONS = ("open", "fsync", "replace", "mkdir", "close")


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


class Faults:
    """Counts the calls of os functions, and fails the one of a given number."""

    def __init__(self, monkeypatch, fail_at: int, error: BaseException):
        self.calls: list[str] = []
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self.wrapped(name, getattr(os, name), fail_at, error))

    def wrapped(self, name, original, fail_at, error):
        def call(*args, **kwargs):
            self.calls.append(name)
            if len(self.calls) - 1 == fail_at:
                raise error
            return original(*args, **kwargs)

        return call


def test_a_failure_of_any_file_operation_leaves_the_old_or_the_new_file_whole(tmp_path, monkeypatch):
    operations: list[str] = []
    for number in range(100):
        path = tmp_path / str(number) / "a.ckpt"
        io.save_checkpoint(OLD, path)
        with monkeypatch.context() as patch:
            faults = Faults(patch, number, OSError(errno.EIO, "Input/output error"))
            try:
                io.save_checkpoint(NEW, path)
            except CheckpointError as error:
                assert str(path) in str(error)  # noqa: PT017
                assert "Input/output error" in str(error)  # noqa: PT017
                failed = True
            else:
                failed = False
        n = io.load_checkpoint(path)["n"]
        assert n in (1, 2)
        assert names(path.parent) == ["a.ckpt"]
        if not failed:
            assert n == 2
            operations = faults.calls
            break
    assert {"open", "fsync", "replace"} <= set(operations)
    assert (
        operations.index("fsync") < operations.index("replace") < len(operations) - operations[::-1].index("fsync") - 1
    )


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_names_file_cause_and_way_out_and_keeps_the_old_file(tmp_path, monkeypatch, error):
    from lt_core.files.atomic_file import _Faithful

    path = tmp_path / "a.ckpt"
    io.save_checkpoint(OLD, path)
    original = _Faithful.write

    class Broken:
        def write(self, data):
            raise OSError(error, os.strerror(error))

    for room in (0, 60, 500, 3000, 5000):

        def full(self, data, room=room):
            if self.count + len(data) > room:
                self.raw = Broken()
            return original(self, data)

        monkeypatch.setattr(_Faithful, "write", full)
        with pytest.raises(CheckpointError, match=r"a\.ckpt could not be written.*save_top_k"):
            io.save_checkpoint(NEW, path)
        assert names(tmp_path) == ["a.ckpt"]
    assert io.load_checkpoint(path)["n"] == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_that_is_full_keeps_its_error():
    from lt_core.files.atomic_file import fill

    with Path("/dev/full").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        fill(file, lambda f: torch.save(NEW, f))


def test_short_writes_are_completed(tmp_path):
    from lt_core.files.atomic_file import fill

    class Slow:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data[:7])
            return min(len(data), 7)

    slow = Slow()
    fill(slow, lambda f: torch.save({"a": torch.arange(5)}, f))
    (tmp_path / "a.ckpt").write_bytes(slow.data)
    assert io.load_checkpoint(tmp_path / "a.ckpt")["a"].tolist() == list(range(5))


def test_what_was_written_is_checked_before_it_gets_its_name(tmp_path):
    def check(file):
        raise ValueError("not right")

    (tmp_path / "a").write_text("old")
    with pytest.raises(ValueError, match="not right"):
        write_atomically(tmp_path / "a", lambda file: file.write(b"new"), check)
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_folder_of_the_same_name_is_an_error_that_says_so(tmp_path):
    (tmp_path / "a.ckpt").mkdir()
    with pytest.raises(CheckpointError, match="A folder has this name"):
        io.save_checkpoint(NEW, tmp_path / "a.ckpt")
    assert names(tmp_path) == ["a.ckpt"]


def test_a_file_where_a_folder_is_needed_is_an_error_that_says_so(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(CheckpointError, match=r"run/a\.ckpt could not be written"):
        io.save_checkpoint(NEW, tmp_path / "run" / "a.ckpt")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_an_error_that_says_so(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match="Permission denied"):
            io.save_checkpoint(NEW, tmp_path / "a.ckpt")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_nothing_is_written_outside_of_the_final_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/dev/shm/not-there")
    for folder in (tmp_path, Path(f"/dev/shm/lt-test-{os.getpid()}")):
        try:
            io.save_checkpoint(NEW, folder / "a.ckpt")
            io.point_last(folder / "a.ckpt", folder / "last.ckpt")
            assert io.load_checkpoint(folder / "last.ckpt")["n"] == 2
        finally:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()


def test_ctrl_c_in_the_middle_of_a_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.ckpt"
    io.save_checkpoint(OLD, path)
    Faults(monkeypatch, 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        io.save_checkpoint(NEW, path)
    monkeypatch.undo()
    assert io.load_checkpoint(path)["n"] == 1
    assert names(tmp_path) == ["a.ckpt"]


KILLED = """
    import os, signal, sys
    import torch
    from lt_core import CheckpointIO

    name, path = sys.argv[1:]
    original = getattr(os, name)

    def die(*args, **kwargs):
        if name == "fsync" and not os.path.exists(path):
            return original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    io = CheckpointIO()
    io.save_checkpoint({"n": 1}, path)
    setattr(os, name, die)
    io.save_checkpoint({"n": 2, "w": torch.ones(100000)}, path)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.faults
def test_after_kill_9_the_old_file_is_whole_and_the_leftover_is_cleaned(tmp_path):
    for name in ("fsync", "replace"):
        path = tmp_path / name / "a.ckpt"
        done = warm.run([sys.executable, "-c", textwrap.dedent(KILLED), name, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert io.load_checkpoint(path)["n"] == 1
        assert len(names(path.parent)) == 2
        (left,) = clean_leftovers(path.parent)
        assert left.name.startswith(".a.ckpt.")
        assert names(path.parent) == ["a.ckpt"]


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_cleaning_leaves_a_name_that_is_being_made(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("whole")
    replace = os.replace

    def cleaned_first(old, new):
        assert clean_leftovers(tmp_path) == []
        replace(old, new)

    monkeypatch.setattr(os, "replace", cleaned_first)
    io.add_name(tmp_path / "a", tmp_path / "b")
    io.point_last(tmp_path / "a", tmp_path / "c")
    assert names(tmp_path) == ["a", "b", "c"]
    os.link(tmp_path / "a", tmp_path / ".b.0123456789ab.tmp")
    monkeypatch.setattr(atomic_file, "_GRACE", 0.0)
    assert [p.name for p in clean_leftovers(tmp_path)] == [".b.0123456789ab.tmp"]


@pytest.mark.skipif(os.name == "nt", reason="needs locks")
def test_cleaning_leaves_a_file_that_is_being_written_and_what_is_not_ours(tmp_path):
    (tmp_path / ".hidden.tmp").write_text("not ours")
    (tmp_path / ".a.ckpt.0123456789ab.tmp").write_text("left over")

    def write(file):
        file.write(b"half")
        assert [p.name for p in clean_leftovers(tmp_path)] == [".a.ckpt.0123456789ab.tmp"]
        file.write(b"whole")

    write_atomically(tmp_path / "b", write)
    assert (tmp_path / "b").read_bytes() == b"halfwhole"
    assert names(tmp_path) == [".hidden.tmp", "b"]
    assert clean_leftovers(tmp_path / "nowhere") == []


def test_a_name_as_long_as_the_file_system_takes_in_many_byte_characters(tmp_path):
    file = tmp_path / f"{'模' * 83}.ckpt"  # 254 bytes
    CheckpointIO().save_checkpoint({"a": 1}, file)
    assert CheckpointIO().load_checkpoint(file)["a"] == 1
