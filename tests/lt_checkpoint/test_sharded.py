"""The folder of a sharded checkpoint, read by one process: hostile or senseless indices, errors of ranks."""

import pickle

import pytest
from torch.distributed.checkpoint.api import CheckpointException

import lt_checkpoint
from lt_checkpoint import CheckpointError
from lt_checkpoint._sharded import _shared_error


class Evil:
    def __reduce__(self):
        return print, ("code from a checkpoint ran",)


def test_an_index_that_would_run_code_is_refused(tmp_path, capsys):
    (tmp_path / "rest.ckpt").touch()
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match=r"builtins.print does not describe a tensor"):
        lt_checkpoint.load(tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "index", [b"", b"garbage", b"\x80\xff", b"cos\n.", b"ctorch.distributed.checkpoint.filesystem\nFileSystemWriter\n."]
)
def test_an_index_that_is_senseless_is_named(index, tmp_path):
    (tmp_path / "rest.ckpt").touch()
    (tmp_path / ".metadata").write_bytes(index)
    with pytest.raises(CheckpointError, match="cannot be trusted or read"):
        lt_checkpoint.load(tmp_path)


class OneOfTwo:
    rank, world_size = 0, 2

    """A rank that hears what the other one tells."""

    def __init__(self, other):
        self.other, self.told = other, []

    def gather_objects(self, value):
        self.told.append(value)
        return [value, self.other]


def test_an_error_of_one_rank_while_it_saves_is_raised_on_all(tmp_path):
    fails = OneOfTwo("")
    with pytest.raises(OSError, match="disk full"), _shared_error(fails, tmp_path / "a.ckpt"):
        raise OSError("disk full")
    hears = OneOfTwo(fails.told[0])
    with (
        pytest.raises(CheckpointError, match=r"a\.ckpt could not be written: disk full.*LT747"),
        _shared_error(hears, tmp_path / "a.ckpt"),
    ):
        pass


def test_what_stops_torch_while_it_writes_is_a_failed_save_and_ends_no_run(tmp_path):
    failed = CheckpointException("write", {1: (OSError("disk full"), None)})
    with (
        pytest.raises(CheckpointError, match=r"a\.ckpt could not be written: disk full.*LT747"),
        _shared_error(OneOfTwo(""), tmp_path / "a.ckpt"),
    ):
        raise failed
