"""A run that lives is resumed by no other process; nothing else is refused."""

import errno
import json
import os
import shutil
import signal
import time
from contextlib import contextmanager

import pytest
from tests.patience import PATIENCE

from lt_loops.run import lock
from lt_loops.run.lock import RunLock

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

RUN = "20261125-120000-abcdef"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lock, "_BEAT", 0.05)
    monkeypatch.setattr(lock, "_WATCH", 1.0)


@contextmanager
def process(do):
    """Have another process do something and live on; give its id."""
    done, finished = os.pipe()
    child = os.fork()
    if not child:
        try:
            do()
            os.write(finished, b"1")
            time.sleep(PATIENCE)
        finally:
            os._exit(1)
    try:
        assert os.read(done, 1) == b"1"
        yield child
    finally:
        kill(child)


def kill(child):
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def claimed(*folders, run=RUN):
    """Claim the run, and keep it; return what came of it."""
    own = RunLock()
    kept.append(own)
    return own.claim(run, map(str, folders))


kept = []


@pytest.fixture(autouse=True)
def released():
    yield
    while kept:
        kept.pop().release()


def of_host(name):
    lock._host = lambda: f"{name} boot"


def test_a_run_that_lives_on_this_host_is_refused_and_after_kill_9_taken_at_once(tmp_path):
    with process(lambda: claimed(tmp_path)) as child:
        assert claimed(tmp_path) == f"process {child} on {lock.platform.node()}"
        began = time.monotonic()
        kill(child)
        assert claimed(tmp_path) == ""
        assert time.monotonic() - began < PATIENCE
    assert json.loads(next(tmp_path.iterdir()).read_text())["pid"] == os.getpid()


def test_a_run_that_lives_on_another_host_is_refused_and_after_kill_9_taken(tmp_path):
    with process(lambda: (of_host("other"), claimed(tmp_path))) as child:
        assert claimed(tmp_path) == f"process {child} on other"
        kill(child)
        assert claimed(tmp_path) == ""


def test_another_host_that_gives_no_sign_of_life_counts_for_nothing(tmp_path):
    with process(lambda: (of_host("other"), claimed(tmp_path))) as child:
        os.kill(child, signal.SIGSTOP)
        assert claimed(tmp_path) == ""


def test_a_lost_process_of_another_host_is_waited_for_once(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in "abcd"]
    for folder in folders:
        folder.mkdir()
    with process(lambda: (of_host("other"), claimed(*folders))) as child:
        kill(child)
        watched = []
        monkeypatch.setattr(lock, "_moves", lambda path: bool(watched.append(path)))
        assert claimed(*folders) == ""
        assert len(watched) == 1


def test_a_process_that_reads_its_own_lock_holds_it_still(tmp_path):
    def reads():
        assert claimed(tmp_path) == ""
        shutil.copytree(tmp_path, tmp_path / "copy")  # closing a file unlocks it, whoever opened it
        time.sleep(1)

    with process(reads) as child:
        assert claimed(tmp_path).startswith(f"process {child} on ")


def test_another_run_in_the_same_folder_is_none_of_its_business(tmp_path):
    with process(lambda: claimed(tmp_path)):
        assert claimed(tmp_path, run="another") == ""


def test_in_the_same_process_and_its_forks_nothing_is_refused(tmp_path):
    assert claimed(tmp_path) == ""
    assert claimed(tmp_path) == ""

    def in_a_fork():
        assert claimed(tmp_path) == ""
        kept[0].release()  # which leaves the file of its parent

    with process(in_a_fork):
        assert len(list(tmp_path.iterdir())) == 1


def test_forks_of_a_killed_process_hold_nothing(tmp_path):
    """As loader workers, which live on for some seconds."""

    def with_a_worker():
        claimed(tmp_path)
        if not os.fork():
            time.sleep(2)
            os._exit(0)

    with process(with_a_worker) as child:
        kill(child)
        assert claimed(tmp_path) == ""


@pytest.mark.parametrize("how", ["copied", "renamed"])
def test_in_a_folder_that_was_copied_or_renamed_nothing_is_refused(how, tmp_path):
    (tmp_path / "run").mkdir()
    with process(lambda: claimed(tmp_path / "run")):
        {"copied": shutil.copytree, "renamed": shutil.move}[how](tmp_path / "run", tmp_path / "there")
        assert claimed(tmp_path / "there") == ""


def test_a_folder_by_another_name_is_the_same_folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    with process(lambda: claimed(tmp_path / "run")):
        assert claimed(tmp_path / "link")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_nothing_is_refused(number, tmp_path, monkeypatch):
    def lockf(*_):
        raise OSError(number, os.strerror(number))

    with process(lambda: claimed(tmp_path)):
        monkeypatch.setattr(lock.fcntl, "lockf", lockf)
        assert claimed(tmp_path) == ""
        monkeypatch.setattr(lock, "fcntl", None)
        assert claimed(tmp_path) == ""


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC])
def test_where_nothing_can_be_written_nothing_is_refused(number, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with process(lambda: claimed(tmp_path)):
        monkeypatch.setattr(lock.os, "open", refuse)
        assert claimed(tmp_path) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"path": 1}', '{"path": "", "host": 1, "pid": 2}'])
def test_a_lock_that_says_nothing_counts_for_nothing(text, tmp_path):
    (tmp_path / f".{RUN}.lock").write_text(text)
    assert claimed(tmp_path) == ""


@pytest.mark.parametrize("run", ["../up", "/root", "a/b", "x" * 300])
def test_a_name_from_a_strangers_file_leads_nowhere_else(run, tmp_path):
    (tmp_path / "in").mkdir()
    assert claimed(tmp_path / "in", run=run) == ""
    assert len(list((tmp_path / "in").iterdir())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_an_end_leaves_nothing_and_no_folder_is_made(tmp_path):
    claimed(tmp_path, tmp_path / "not there", "memory://there")
    while kept:
        kept.pop().release()
    assert list(tmp_path.iterdir()) == []
