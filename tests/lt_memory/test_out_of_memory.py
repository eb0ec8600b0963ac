"""An error for want of memory says what holds it, and what helps."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core.module import LightningModule
from lt_loops import Trainer
from lt_memory.held import out_of_memory

QUIET = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}


class Big(LightningModule):
    """A million weights; the second batch of training, or the first of validation, finds no memory."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1000, 1000, bias=False)

    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return self.layer(batch).sum()

    def validation_step(self, batch, batch_idx):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


@pytest.mark.parametrize(
    ("start", "arguments", "held"),
    [
        ("fit", {}, "parameters and buffers 0.004, gradients 0.004, optimizers 0.008"),
        ("fit", {"accumulate_grad_batches": 2}, "parameters and buffers 0.004, gradients 0.004, optimizers 0.000"),
        ("validate", {}, "parameters and buffers 0.004, gradients 0.000, optimizers 0.000"),
    ],
)
def test_the_error_says_what_holds_the_memory(start, arguments, held):
    trainer = Trainer(max_epochs=1, **QUIET, **arguments)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate") as caught:
        getattr(trainer, start)(Big(), DataLoader(torch.ones(2, 1000)))
    notes = [note for note in caught.value.__notes__ if "LT354" in note]
    assert len(notes) == 1
    assert held in notes[0]
    assert "accumulate_grad_batches" in notes[0]


@pytest.mark.parametrize(("reserved", "advised"), [(11e9, False), (13e9, True)], ids=["all in use", "in pieces"])
def test_memory_in_pieces_that_no_tensor_fits_into_is_named_with_the_setting_that_helps(reserved, advised, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda device: 10e9)
    monkeypatch.setattr(torch.accelerator, "memory_reserved", lambda device: reserved)
    text = out_of_memory(Big(), [], torch.device("cuda"))
    assert "of 10.000 at the fullest" in text
    assert ("3.000 lie between: PYTORCH_ALLOC_CONF=expandable_segments:True" in text) == advised
