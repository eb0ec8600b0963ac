"""Saving in the background: what was copied is what is written, in order, and failures come out of ``wait``."""

import math
import os
import pickle
import threading

import pytest
import torch
from tests.patience import PATIENCE

from lt_checkpoint._background import AsyncCheckpointIO, available_memory
from lt_checkpoint._host_copy import HostCopies, num_bytes
from lt_core import CheckpointError, CheckpointIO


class Held(CheckpointIO):
    """Writes when it is let go; fails where it is told to."""

    def __init__(self):
        self.go = threading.Event()
        self.fail: set[str] = set()
        self.log: list[str] = []

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.go.wait(PATIENCE)
        if str(path) in self.fail:
            raise CheckpointError(f"{path}: disk full")
        super().save_checkpoint(checkpoint, path, storage_options)
        self.log.append(f"saved {path.name}")

    def remove_checkpoint(self, path):
        super().remove_checkpoint(path)
        self.log.append(f"removed {path.name}")

    def point_last(self, target, link):
        super().point_last(target, link)
        self.log.append(f"last is {target.name}")


@pytest.fixture
def held():
    io = AsyncCheckpointIO(Held())
    yield io
    io.io.go.set()
    io.io.fail.clear()
    io.teardown()


def test_training_may_change_tensors_as_soon_as_save_returns(tmp_path, held):
    weight = torch.ones(1000)
    held.save_checkpoint({"w": weight, "list": (numbers := [1])}, tmp_path / "a.ckpt")
    weight.zero_()
    numbers.append(2)
    assert not (tmp_path / "a.ckpt").exists()
    held.io.go.set()
    loaded = held.load_checkpoint(tmp_path / "a.ckpt")
    assert loaded["w"].eq(1).all()
    assert loaded["list"] == [1]


def test_what_is_not_plain_is_an_error_at_once(tmp_path, held):
    with pytest.raises(CheckpointError, match=r"checkpoint\['x'\]"):
        held.save_checkpoint({"x": object()}, tmp_path / "a.ckpt")


def test_links_and_removals_take_their_turn(tmp_path, held):
    held.io.go.set()
    held.save_checkpoint({"n": 1}, tmp_path / "1.ckpt")
    held.point_last(tmp_path / "1.ckpt", tmp_path / "last.ckpt")
    held.save_checkpoint({"n": 2}, tmp_path / "2.ckpt")
    held.point_last(tmp_path / "2.ckpt", tmp_path / "last.ckpt")
    held.remove_checkpoint(tmp_path / "1.ckpt")
    held.wait()
    assert held.io.log == ["saved 1.ckpt", "last is 1.ckpt", "saved 2.ckpt", "last is 2.ckpt", "removed 1.ckpt"]


def test_when_a_save_fails_nothing_old_goes_and_wait_says_it_once(tmp_path, held):
    old, new = tmp_path / "old.ckpt", tmp_path / "new.ckpt"
    held.io.go.set()
    held.save_checkpoint({"n": 1}, old)
    held.point_last(old, tmp_path / "last.ckpt")
    held.io.fail.add(str(new))
    held.save_checkpoint({"n": 2}, new)
    held.point_last(new, tmp_path / "last.ckpt")
    held.remove_checkpoint(old)
    with pytest.raises(CheckpointError, match="disk full"):
        held.wait()
    held.wait()
    assert held.load_checkpoint(tmp_path / "last.ckpt") == {"n": 1}
    held.remove_checkpoint(old)
    held.wait()
    assert not old.exists()


def test_several_failures_come_out_together(tmp_path, held):
    held.io.go.set()
    for name in ("a", "b"):
        held.io.fail.add(str(tmp_path / name))
        held.save_checkpoint({}, tmp_path / name)
    with pytest.raises(CheckpointError, match="a: disk full") as caught:
        held.wait()
    assert any("b: disk full" in note for note in caught.value.__notes__)


def test_after_teardown_no_thread_stays_and_it_can_be_used_again(tmp_path):
    io = AsyncCheckpointIO()
    before = threading.active_count()
    for number in range(3):
        io.save_checkpoint({"n": number}, tmp_path / "a.ckpt")
        io.teardown()
        assert threading.active_count() == before
    assert io.load_checkpoint(tmp_path / "a.ckpt") == {"n": 2}


def test_it_can_be_sent_to_another_process(tmp_path):
    io = AsyncCheckpointIO()
    io.save_checkpoint({"n": 1}, tmp_path / "a.ckpt")
    sent = pickle.loads(pickle.dumps(io))
    io.teardown()
    sent.save_checkpoint({"n": 2}, tmp_path / "b.ckpt")
    sent.teardown()
    assert sent.load_checkpoint(tmp_path / "b.ckpt") == {"n": 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_saves_with_a_thread_of_its_own(tmp_path):
    io = AsyncCheckpointIO()
    io.save_checkpoint({"n": 1}, tmp_path / "a.ckpt")
    io.wait()
    child = os.fork()
    if child == 0:
        io.save_checkpoint({"n": 2}, tmp_path / "b.ckpt")
        io.wait()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    io.teardown()
    assert io.load_checkpoint(tmp_path / "b.ckpt") == {"n": 2}


def test_without_memory_for_a_copy_saving_waits_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("lt_checkpoint._background.available_memory", lambda: 1000)
    io = AsyncCheckpointIO()
    with pytest.warns(UserWarning, match="does not fit"):
        io.save_checkpoint({"w": torch.ones(1000)}, tmp_path / "a.ckpt")
    assert (tmp_path / "a.ckpt").exists()
    io.teardown()


@pytest.mark.parametrize("sent", [False, True])
def test_a_copy_takes_at_most_the_memory_that_it_may(sent, tmp_path):
    io = AsyncCheckpointIO(max_memory=4000)
    io = pickle.loads(pickle.dumps(io)) if sent else io
    io.save_checkpoint({"w": torch.ones(1000)}, tmp_path / "fits.ckpt")
    io.wait()
    with pytest.warns(UserWarning, match="does not fit"):
        io.save_checkpoint({"w": torch.ones(1001)}, tmp_path / "large.ckpt")
    assert not io.is_writing()
    assert (tmp_path / "large.ckpt").exists()
    io.save_checkpoint({"w": torch.ones(1000)}, tmp_path / "fits again.ckpt")
    io.teardown()


def test_available_memory_is_a_number_of_bytes():
    assert available_memory() > 1 << 20


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, math.inf),
        ({"meminfo": "MemFree: 9 kB\nMemAvailable: 5 kB"}, 5120),
        ({"meminfo": "MemAvailable: 5 kB", "memory.max": "max", "memory.current": "100"}, 5120),
        ({"meminfo": "MemAvailable: 5 kB", "memory.max": "900", "memory.current": "500"}, 5120),
        ({"meminfo": "MemAvailable: 5 kB", "memory.max": "900", "memory.current": "500", "memory.stat": "a 1"}, 5120),
        (
            {
                "meminfo": "MemAvailable: 5 kB",
                "memory.max": "900",
                "memory.current": "500",
                "memory.stat": "inactive_file 30",
            },
            430,
        ),
        ({"memory.max": "400", "memory.current": "500", "memory.stat": "inactive_file 30"}, 0),
    ],
)
def test_the_free_memory_is_the_containers_where_it_has_a_limit(files, free, monkeypatch, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("lt_checkpoint._background.Path", lambda path: tmp_path / path.rpartition("/")[2])
    assert available_memory() == free


def test_buffers_are_used_again_and_views_are_copied_alone():
    large = torch.arange(1000.0)
    tree = {"a": large[:10], "again": large[:10], "b": torch.ones(3), "sparse": torch.eye(2).to_sparse()}
    copies = HostCopies()
    first = copies.take(tree)
    places = first["a"].data_ptr(), first["b"].data_ptr()
    assert first["a"].untyped_storage().nbytes() == 40
    assert first["again"] is first["a"]
    large.add_(1)
    second = copies.take(tree)
    assert (second["a"].data_ptr(), second["b"].data_ptr()) == places
    assert second["a"].tolist() == list(range(1, 11))
    assert torch.equal(second["sparse"].to_dense(), torch.eye(2))
    third = copies.take({"a": torch.ones(4, 4).t()})
    assert third["a"].shape == (4, 4)


def test_num_bytes_counts_what_is_shared_once():
    weight = torch.ones(10)
    assert num_bytes({"a": weight, "b": [weight.detach()], "c": weight[:5], "d": "text"}) == 60


def test_num_bytes_counts_pinned_memory_as_torch_takes_it(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True), raising=False)
    assert num_bytes({"a": torch.ones(10), "b": torch.ones(16), "c": torch.ones(0)}) == 64 + 64


def test_pinned_buffers_are_given_back_to_the_system_at_the_end(tmp_path, monkeypatch):
    given_back = []
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True), raising=False)
    monkeypatch.setattr(torch, "empty_like", lambda tensor, device, pin_memory: torch.empty(tensor.shape))
    monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: given_back.append("all"))
    io = AsyncCheckpointIO()
    io.save_checkpoint({"a": torch.ones(10)}, tmp_path / "a.ckpt")
    io.teardown()
    assert given_back == ["all"]


@pytest.mark.cuda
def test_tensors_on_cuda_are_copied_before_save_returns(tmp_path):
    io = AsyncCheckpointIO()
    weight = torch.arange(1_000_000.0, device="cuda")
    for add in (0, 5):
        weight.add_(add)
        io.save_checkpoint({"w": weight}, tmp_path / f"{add}.ckpt")
        weight.sub_(add)
    io.wait()
    assert torch.equal(io.load_checkpoint(tmp_path / "5.ckpt")["w"], torch.arange(1_000_000.0) + 5)
    io.teardown()


def test_a_save_from_inference_mode_leaves_buffers_that_later_saves_can_use():
    copies = HostCopies()
    with torch.inference_mode():
        copies.take({"a": torch.ones(3)})
    assert copies.take({"a": torch.zeros(3, requires_grad=True)})["a"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["mps", "cuda", "xpu"])
def test_a_copy_waits_for_every_kind_of_device(kind, monkeypatch):
    waited = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    copies = HostCopies()
    copies._devices.add(torch.device(kind, 0))
    copies.take({"n": 1})
    assert waited == [torch.device(kind, 0)]
    copies.take({"n": 2})
    assert len(waited) == 1
