"""Checkpoints by a name that ends in ``.safetensors``: weights that any program reads, and what describes them."""

import pytest
import torch
from torch import nn

import lt_checkpoint
from lt_core import CheckpointError, CheckpointIO

safetensors = pytest.importorskip("safetensors.torch")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def test_the_library_reads_the_weights(tmp_path):
    model = nn.Linear(3, 2)
    lt_checkpoint.save(
        {"state_dict": model.state_dict(), "optimizer_states": [{"state": {}}]}, tmp_path / "a.safetensors"
    )
    other = nn.Linear(3, 2)
    safetensors.load_model(other, tmp_path / "a.safetensors")
    assert torch.equal(other.weight, model.weight)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.safetensors"]


def test_what_is_text_comes_back_and_training_state_does_not(tmp_path):
    hparams = {"lr": 0.1, "sizes": (3, 4), "names": ["a", None]}
    tree = {"epoch": 3, "global_step": 7, "state_dict": {"w": torch.ones(2)}, "hyper_parameters": hparams, "lt": {}}
    lt_checkpoint.save(tree, tmp_path / "a.safetensors")
    found = lt_checkpoint.load(tmp_path / "a.safetensors")
    assert found.pop("state_dict")["w"].tolist() == [1, 1]
    assert found == {"epoch": 3, "global_step": 7, "hyper_parameters": hparams}


def test_shared_weights_are_written_once_by_the_librarys_rule_and_come_back(tmp_path):
    model = Tied()
    lt_checkpoint.save({"state_dict": model.state_dict()}, tmp_path / "ours.safetensors")
    safetensors.save_model(model, tmp_path / "theirs.safetensors")
    ours, theirs = (safetensors.load_file(tmp_path / f"{name}.safetensors") for name in ("ours", "theirs"))
    assert list(ours) == list(theirs) == ["embed.weight"]
    for name in ("ours", "theirs"):
        state = lt_checkpoint.load(tmp_path / f"{name}.safetensors")["state_dict"]
        assert torch.equal(state["head.weight"], model.head.weight)


def test_views_transposes_and_parts_of_one_memory_are_written_as_what_they_are(tmp_path):
    whole = torch.arange(12.0).reshape(3, 4)
    state = {"a": whole, "first": whole[0], "t": whole.T, "one": torch.arange(4)[:1], "empty": torch.empty(0, 2)}
    for io in (CheckpointIO(), lt_checkpoint.AsyncCheckpointIO()):
        io.save_checkpoint({"state_dict": state}, tmp_path / "a.safetensors")
        io.wait()
        found = io.load_checkpoint(tmp_path / "a.safetensors")["state_dict"]
        assert all(torch.equal(found[name], value) for name, value in state.items())


def test_what_is_no_tensor_is_refused_by_its_key_before_anything_is_written(tmp_path):
    with pytest.raises(CheckpointError, match=r"state_dict\['b'\] is a dict.*LT675"):
        lt_checkpoint.save({"state_dict": {"a": torch.ones(1), "b": {}}}, tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [0, 4, 60, -1])
def test_a_damaged_file_says_so(cut, tmp_path):
    path = tmp_path / "a.safetensors"
    lt_checkpoint.save({"state_dict": {"w": torch.ones(64)}}, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match="damaged.*LT657"):
        lt_checkpoint.verify(path)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="is not there.*LT656"):
        lt_checkpoint.load(tmp_path / "a.safetensors")


def test_behind_a_url(tmp_path):
    pytest.importorskip("fsspec")
    lt_checkpoint.save({"state_dict": {"w": torch.ones(3)}}, "memory://st/a.safetensors")
    assert lt_checkpoint.load("memory://st/a.safetensors")["state_dict"]["w"].sum() == 3


@pytest.mark.parametrize("text", ['{"__tuple__": 5}', "[" * 100_000], ids=["no tuple", "nested"])
def test_what_describes_the_weights_and_is_damaged_is_said(tmp_path, text):
    file = tmp_path / "a.safetensors"
    safetensors.save_file({"w": torch.ones(2)}, file, {"written_by": "lt-checkpoint", "hyper_parameters": text})
    with pytest.raises(CheckpointError, match="is damaged"):
        lt_checkpoint.load(file)
