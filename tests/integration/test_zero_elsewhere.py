"""A checkpoint of torch's ZeroRedundancyOptimizer holds what the optimizer inside it saves: either resumes it."""

import pytest
import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_core.errors import CheckpointError
from lt_loops import Trainer

pytestmark = pytest.mark.ddp
pytest.importorskip("lt_strategies")


class Net(LightningModule):
    def __init__(self, kind, spread):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.kind, self.spread = torch.nn.Linear(4, 2), kind, spread

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        if self.spread:
            return ZeroRedundancyOptimizer(self.parameters(), self.kind, lr=0.1)
        return self.kind(self.parameters(), lr=0.1)


def fitted(file, kind, spread, steps, resumed=None):
    trainer = Trainer(
        max_steps=steps, accelerator="cpu", strategy="ddp_fork", devices=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    net = Net(kind, spread)
    generator = torch.Generator().manual_seed(1)
    trainer.fit(net, DataLoader(torch.randn(16, 4, generator=generator), batch_size=4), ckpt_path=resumed)
    trainer.save_checkpoint(file)
    return net.layer.weight.detach()


@pytest.mark.parametrize("spread", [True, False])
def test_either_resumes_the_others_checkpoint_and_another_optimizer_is_refused(spread, tmp_path):
    whole = fitted(tmp_path / "whole.ckpt", torch.optim.AdamW, spread, 4)
    fitted(tmp_path / "half.ckpt", torch.optim.AdamW, spread, 2)
    resumed = fitted(tmp_path / "end.ckpt", torch.optim.AdamW, not spread, 4, tmp_path / "half.ckpt")
    assert torch.equal(resumed, whole)
    with pytest.raises(CheckpointError, match=r"\(AdamW .* made 1 \(SGD.*LT603"):
        fitted(tmp_path / "no.ckpt", torch.optim.SGD, not spread, 4, tmp_path / "half.ckpt")
