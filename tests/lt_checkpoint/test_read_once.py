"""What is verified by checksum and loaded is read once: the bytes that the kernel hands to this process are counted."""

import warnings
from pathlib import Path

import pytest
import torch

import lt_checkpoint
from lt_checkpoint import CheckpointError, ShardedCheckpointIO
from lt_core.ranks import Ranks

COUNTER = Path("/proc/self/io")
pytestmark = pytest.mark.skipif(not COUNTER.exists(), reason="needs Linux's count of bytes read")

TREE = {"state_dict": {f"layer{number}": torch.rand(2**18) for number in range(5)}, "step": 3}
SIZE = 5 * 2**20


def bytes_read(action):
    action()  # imports read files too
    before = int(COUNTER.read_text().split()[1])
    action()
    return int(COUNTER.read_text().split()[1]) - before


@pytest.fixture(params=["file", "folder"])
def path(request, tmp_path):
    if request.param == "file":
        lt_checkpoint.save(TREE, tmp_path / "a.ckpt")
    else:
        pytest.importorskip("numpy")  # of the extra [sharded]
        with warnings.catch_warnings(action="ignore"):  # torch's: there is no process group
            ShardedCheckpointIO().save_shards(TREE, tmp_path / "a.ckpt", Ranks())
    return tmp_path / "a.ckpt"


def test_a_checkpoint_is_verified_while_it_is_read(path):
    assert SIZE < bytes_read(lambda: lt_checkpoint.load(path)) < 1.1 * SIZE
    tree = lt_checkpoint.load(path)
    assert tree["step"] == 3
    assert all(torch.equal(tree["state_dict"][name], value) for name, value in TREE["state_dict"].items())


@pytest.mark.parametrize("where", [0.2, 0.9])
def test_a_bit_that_flips_is_found_on_the_way(where, path):
    file = path if path.is_file() else max(path.glob("*.distcp"))
    contents = bytearray(file.read_bytes())
    contents[int(where * len(contents))] ^= 1
    file.write_bytes(contents)
    with pytest.raises(CheckpointError, match=r"a\.ckpt is damaged"):
        lt_checkpoint.load(path)


def test_records_that_torch_does_not_read_are_compared_too(tmp_path):
    lt_checkpoint.save({"state_dict": {}, "step": 3}, tmp_path / "a.ckpt")
    contents = (tmp_path / "a.ckpt").read_bytes()
    place = contents.index(b"little")  # the record byteorder
    (tmp_path / "a.ckpt").write_bytes(contents[:place] + b"kittle" + contents[place + 6 :])
    with pytest.raises(CheckpointError, match="checksum of its record 'byteorder' is wrong"):
        lt_checkpoint.load(tmp_path / "a.ckpt")
