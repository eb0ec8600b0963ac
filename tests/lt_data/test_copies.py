"""Where the accelerator copies beside the step, each batch is on its way before the step on the one before it."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Accelerator, Placement, Strategy


class Beside(Accelerator):
    """A stranger's device that says what happens when."""

    pinned = False

    def __init__(self):
        self.done = []

    def copies(self, device):
        return self

    def begin(self, tensor):
        self.done.append(f"begin {tensor.sum().item():g}")
        return tensor + 100

    def wait(self):
        self.done.append("wait")

    def hand_over(self, tensor):
        self.done.append("hand over")


@pytest.fixture
def beside():
    return Beside()


def feed_of(kit, loader, accelerator):
    strategy = Strategy()
    strategy.place(Placement(accelerator=accelerator))
    return kit.make_feed(loader, stage="fit", transfer=strategy.to_device)


def test_the_next_batch_is_on_its_way_before_the_step(kit, beside):
    batches = DataLoader(TensorDataset(torch.tensor([1, 2, 3])), batch_size=1)
    for (batch,) in feed_of(kit, batches, beside):
        beside.done.append(f"step {batch.item()}")
    assert beside.done == [
        "begin 1", "wait", "hand over", "begin 2", "step 101",
        "wait", "hand over", "begin 3", "step 102", "wait", "hand over", "step 103",
    ]  # fmt: skip


def test_code_of_the_users_in_this_process_runs_after_the_step_as_in_a_plain_loop(kit, beside):
    for batch in feed_of(kit, [torch.tensor([1]), torch.tensor([2])], beside):
        beside.done.append(f"step {batch.item()}")
    assert beside.done == ["begin 1", "wait", "hand over", "step 101", "begin 2", "wait", "hand over", "step 102"]


def test_a_strategy_that_moves_batches_by_itself_is_asked_for_each(kit, beside):
    class Own(Strategy):
        def to_device(self, batch):
            return batch

    strategy = Own()
    strategy.place(Placement(accelerator=beside))
    assert [b.item() for b in kit.make_feed([torch.tensor([1])], stage="fit", transfer=strategy.to_device)] == [1]
    assert not beside.done


def test_no_memory_is_pinned_for_a_gpu_of_apple_s(kit, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("mps"))
    empty, asked = torch.empty, []
    monkeypatch.setattr(
        torch, "empty", lambda *size, pin_memory=False, **how: asked.append(pin_memory) or empty(*size, **how)
    )
    (batch,) = kit.make_feed(DataLoader(TensorDataset(torch.ones(2)), 2, pin_memory=True), stage="fit")
    assert batch[0].tolist() == [1, 1]
    assert not any(asked)
