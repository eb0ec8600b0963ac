"""``trainer.save_checkpoint`` after a run in processes that ended with it: what a notebook's last cell does."""

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_core.errors import LtWarning
from lt_loops import Trainer

pytest.importorskip("lt_strategies")


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.ddp
def test_the_weights_are_written_and_what_is_gone_is_said(tmp_path):
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp_fork", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    module = Line()
    before = module.layer.weight.clone()
    trainer.fit(module, DataLoader(torch.ones(8, 2)))
    with pytest.warns(LtWarning, match=r"the ranks that trained ended.*LT617"):
        trainer.save_checkpoint(tmp_path / "a.ckpt")
    saved = Line.load_from_checkpoint(tmp_path / "a.ckpt")
    assert torch.equal(saved.layer.weight, module.layer.weight)
    assert not torch.equal(saved.layer.weight, before)
    trainer.save_checkpoint(tmp_path / "b.ckpt", weights_only=True)  # nothing is lacking, nothing is said
    assert torch.equal(Line.load_from_checkpoint(tmp_path / "b.ckpt").layer.weight, module.layer.weight)
    trainer.max_epochs = 2
    with pytest.warns(LtWarning, match=r"optimizers and schedulers begin anew.*LT694"):
        trainer.fit(module, DataLoader(torch.ones(8, 2)))
    assert trainer.current_epoch == 2
