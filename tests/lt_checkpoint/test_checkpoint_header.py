"""What a checkpoint says of itself, read without its tensors, without its code, by one short read."""

import time

import fsspec
import pytest
import torch

from lt_checkpoint import AsyncCheckpointIO
from lt_checkpoint._header import read_header
from lt_core import CheckpointIO
from lt_core.files.checkpoint_header import FORMAT, Header

io = CheckpointIO()
START = Header.of_new_run()


def tree(step=3, **more):
    return {**START.next(step, 1, weights_only=False).entry(), "state_dict": {"w": torch.zeros(100_000)}, **more}


class Counted:
    """Hands out parts of a file, and counts."""

    def __init__(self, path):
        self.data, self.reads, self.bytes = path.read_bytes(), 0, 0

    def __call__(self, start, end):
        self.reads, self.bytes = self.reads + 1, self.bytes + end - start
        return self.data[start:end]


def test_one_short_read_tells_run_time_step_and_format(tmp_path):
    before = time.time_ns()
    io.save_checkpoint(tree(), tmp_path / "a.ckpt")
    read = Counted(tmp_path / "a.ckpt")
    header = read_header(read)
    assert (header.run, header.step, header.epoch, header.format) == (START.run, 3, 1, FORMAT)
    assert before <= header.time <= time.time_ns()
    assert (read.reads, read.bytes) == (1, 4096)
    assert io.header(tmp_path / "a.ckpt") == AsyncCheckpointIO().header(tmp_path / "a.ckpt") == header


@pytest.fixture
def requests(monkeypatch):
    """The requests to the remote file system, by name; one that another one makes inside is not counted."""
    system, made, depth = type(fsspec.filesystem("memory")), [], []

    def counting(name, plain):
        def request(self, *args, **kwargs):
            if not depth:
                made.append(name)
            depth.append(name)
            try:
                return plain(self, *args, **kwargs)
            finally:
                depth.pop()

        return request

    for name in ("open", "cat_file", "info", "ls", "modified", "isdir", "exists"):
        monkeypatch.setattr(system, name, counting(name, getattr(system, name)))
    return made


def test_one_request_tells_it_of_a_remote_file(requests):
    io.save_checkpoint(tree(), "memory://headers/a.ckpt")
    requests.clear()
    assert io.header("memory://headers/a.ckpt").step == 3
    assert requests == ["cat_file"]
    assert io.header("memory://headers/none.ckpt") is None


def test_a_remote_folder_is_listed_with_times_by_one_request(requests):
    for name in "abc":
        io.save_checkpoint(tree(), f"memory://listed/{name}.ckpt")
    requests.clear()
    assert len(io.times("memory://listed")) == 3
    assert requests == ["ls"]
    assert io.times("memory://listed/none") == {}


def test_a_header_grows_within_a_run_also_where_the_clock_was_set_back(monkeypatch):
    first = START.next(1, 0, weights_only=False)
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    second = first.next(2, 0, weights_only=False)
    assert second.time > first.time
    assert Header.of_new_run().resumed(second).next(3, 0, weights_only=False).time > second.time


def test_a_file_of_0_1_tells_step_and_run_and_one_of_lightning_its_step(tmp_path):
    state = {"state_dict": {f"layer{n}": torch.zeros(2) for n in range(2000)}, "optimizer_states": []}
    callbacks = {"ModelCheckpoint{}": {"run_id": "abc"}}
    old = {"epoch": 1, "global_step": 7, "lt_version": "0.1.0", **state, "callbacks": callbacks}
    io.save_checkpoint(old, tmp_path / "old.ckpt")
    read = Counted(tmp_path / "old.ckpt")
    assert read_header(read) == Header(1, "abc", None, 7, 1, weights_only=False)
    assert read.reads <= 6
    del old["lt_version"], old["callbacks"]
    torch.save(old, tmp_path / "lightning.ckpt")
    assert io.header(tmp_path / "lightning.ckpt") == Header(0, "", None, 7, 1, weights_only=False)


@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04", b"no checkpoint" * 1000, b"PK\x03\x04" + bytes(5000)])
def test_what_is_no_checkpoint_says_nothing(tmp_path, contents):
    (tmp_path / "a.ckpt").write_bytes(contents)
    assert io.header(tmp_path / "a.ckpt") is None
    assert io.header(tmp_path / "none.ckpt") is None


class Hostile:
    def __reduce__(self):
        return print, ("the file ran code",)


@pytest.mark.parametrize("first", [True, False])
def test_reading_it_runs_no_code_of_the_file(tmp_path, capsys, first):
    entry = START.next(3, 1, weights_only=False).entry()
    torch.save({"x": Hostile(), **entry} if first else {**entry, "x": Hostile()}, tmp_path / "a.ckpt")
    found = io.header(tmp_path / "a.ckpt")
    assert (found is None) == first
    assert not capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"time": "now"}, {"run": 3}, {"run": "a\nb"}, {"step": True}, {"weights_only": 1}])
def test_a_header_of_wrong_types_says_nothing(wrong):
    entry = START.next(3, 1, weights_only=False).entry()
    assert Header.of(entry) is not None
    assert Header.of({"lt_header": entry["lt_header"] | wrong}) is None
