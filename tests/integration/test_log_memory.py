"""Logging keeps nothing: memory after 100,000 logged steps is what it was after 20,000."""

import gc
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from lt_callbacks import LearningRateMonitor
from lt_core import Callback, LightningModule
from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger
from lt_loops import Trainer

STEPS = 100_000


class Logs(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).sum() * 0.0
        self.log("loss", loss.detach(), on_step=True, on_epoch=True, prog_bar=True)
        self.log_dict({"most": float(batch_idx), "count": 1}, on_step=False, on_epoch=True, reduce_fx="max")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Memory(Callback):
    """Notes the memory every 20,000 steps: Python's blocks, and the pages of the process."""

    def __init__(self):
        self.blocks, self.bytes = [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % 20_000 == 0:
            for logger in trainer.loggers:
                logger.save()
            gc.collect()
            self.blocks.append(sys.getallocatedblocks())
            self.bytes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LT801")  # nothing is computed
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat_over_a_hundred_thousand_steps_of_logging(tmp_path):
    memory = Memory()
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=[CSVLogger(tmp_path), JSONLLogger(tmp_path), TensorBoardLogger(tmp_path)],
        log_every_n_steps=10,
        callbacks=[memory, LearningRateMonitor("epoch")],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batch = torch.ones(1, 1)
    trainer.fit(Logs(), (batch for _ in range(STEPS)))
    assert trainer.callback_metrics["most"] == STEPS - 1
    assert len(memory.blocks) == 5
    print(f"blocks {memory.blocks}, MB {[round(size / 1e6, 2) for size in memory.bytes]}")
    assert memory.blocks[-1] - memory.blocks[0] < 1_000
    assert memory.bytes[-1] - memory.bytes[0] < 2_000_000
