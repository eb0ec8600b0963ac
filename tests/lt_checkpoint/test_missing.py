"""A checkpoint that is not there is a FileNotFoundError too, however it is asked for."""

import pickle

import pytest

import lt_checkpoint
from lt_core.checkpoint import OneFile
from lt_core.errors import CheckpointError, MissingCheckpointError


@pytest.mark.parametrize("read", [lt_checkpoint.load, OneFile().load_checkpoint], ids=["lt_checkpoint", "lt_core"])
@pytest.mark.parametrize("kind", ["FileNotFoundError", "CheckpointError"])
def test_a_file_that_is_not_there_is_both_errors(read, kind, tmp_path):
    caught = {"FileNotFoundError": FileNotFoundError, "CheckpointError": CheckpointError}[kind]
    (tmp_path / "near.ckpt").touch()
    with pytest.raises(caught, match=r"is not there\. .*\[LT656\]$"):
        read(tmp_path / "neer.ckpt")


def test_a_url_that_is_not_there_is_one_too():
    pytest.importorskip("fsspec")
    with pytest.raises(FileNotFoundError, match="it is not there"):
        lt_checkpoint.load("memory://nobody/none.ckpt")


def test_weights_that_are_not_there_are_one_too(tmp_path):
    pytest.importorskip("safetensors")
    with pytest.raises(FileNotFoundError, match="is not there"):
        lt_checkpoint.load(tmp_path / "none.safetensors")


def test_it_crosses_processes_with_its_text_and_code():
    error = pickle.loads(pickle.dumps(MissingCheckpointError("a.ckpt is not there.", code="LT656")))
    assert (type(error), str(error), error.code) == (MissingCheckpointError, "a.ckpt is not there. [LT656]", "LT656")
