"""Code for Lightning that counts one of several optimizers' steps, as a batch of lt counts anyway."""

import sys

import pytest
from tests import processes

SCRIPT = """
import sys
import torch
import {root} as pl
from {root}.core.optimizer import LightningOptimizer, _MockOptimizer

class Net(pl.LightningModule):
    def __init__(self, count):
        super().__init__()
        self.automatic_optimization = False
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 1) for _ in range(count or 1))
        self.count = count

    def training_step(self, batch, batch_idx):
        optimizers = self.optimizers()
        if isinstance(optimizers, _MockOptimizer):
            return
        optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
        assert all(isinstance(each, LightningOptimizer) for each in optimizers)
        self.manual_backward(sum(layer(batch).sum() for layer in self.layers))
        for index, each in enumerate(optimizers):
            saved = each._on_before_step, each._on_after_step
            if index:
                each._on_before_step = each._on_after_step = lambda: None
            each.step()
            each._on_before_step, each._on_after_step = saved
            each.zero_grad()

    def configure_optimizers(self):
        return [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in self.layers] if self.count else None

for count in (0, 1, 3):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=2, **quiet)
    trainer.fit(Net(count), torch.utils.data.DataLoader(torch.ones(3, 2)))
    print("steps", count, trainer.global_step)
"""


@pytest.mark.parametrize("root", ["lightning.pytorch", "pytorch_lightning"])
def test_one_optimizer_of_several_counts(root, tmp_path):
    (script := tmp_path / "script.py").write_text(SCRIPT.format(root=root), "utf-8")
    words = [sys.executable, "-m", "lt_compat", str(script)]
    done = processes.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("steps")] == [
        "steps 0 0",
        "steps 1 6",
        "steps 3 6",
    ]
