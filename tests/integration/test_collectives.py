"""What ranks say to each other in a step: nothing of lt's, where nothing is due."""

import json
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Callback, LightningModule
from lt_loops import Trainer

pytestmark = pytest.mark.ddp

CALLS = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "scatter_object_list",
    "send",
)


class Counts(Callback):
    """Counts torch's collectives from the fifth batch on; those of DDP's own reducer are C++ and not seen."""

    def __init__(self, folder):
        self.folder, self.calls, self.batches = Path(folder), [], 0

    # not on_train_batch_end: for a hook that may read this batch's values, the ranks share them
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.batches += 1
        if batch_idx == 4:
            for name in CALLS:
                setattr(distributed, name, self.counted(name, getattr(distributed, name)))
                setattr(distributed.distributed_c10d, name, getattr(distributed, name))
        if batch_idx == 44:
            seen = list(self.calls)
            distributed.all_reduce(torch.ones(1))  # that the count works
            (self.folder / f"calls-{trainer.global_rank}").write_text(json.dumps([seen, self.calls]))

    def counted(self, name, original):
        def call(*args, **kwargs):
            self.calls.append(name)
            return original(*args, **kwargs)

        return call


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss, on_step=True, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_step_in_which_nothing_is_due_has_no_collective_of_ours(tmp_path):
    data = DataLoader(TensorDataset(torch.randn(200, 4)), 2)
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp_fork",
        max_epochs=1,
        default_root_dir=tmp_path,
        callbacks=[Counts(tmp_path)],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), data)
    found = [json.loads((tmp_path / f"calls-{rank}").read_text()) for rank in (0, 1)]
    assert found == [[[], ["all_reduce"]]] * 2
