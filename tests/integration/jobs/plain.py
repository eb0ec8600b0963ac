"""One process of a job that somebody else has started; prints where it is and what it trained.

Arguments: those of the Trainer, as JSON. With MEET (an address) and PLACE (a rank) it makes a process group of two,
as Ray Train does for its workers.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from lt_compat.lightning.rank_zero import rank_zero_only
from lt_core import LightningModule
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    if "MEET" in os.environ:
        dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=int(os.environ["PLACE"]), world_size=2)
    torch.manual_seed(0)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = Trainer(accelerator="cpu", max_epochs=1, **quiet, **json.loads(sys.argv[1]))
    module = Net()
    trainer.fit(module, DataLoader(TensorDataset(torch.randn(16, 3)), batch_size=4))
    facts = {
        "rank": trainer.global_rank,
        "world_size": trainer.world_size,
        "devices": trainer.num_devices,
        "nodes": trainer.num_nodes,
        "steps": trainer.global_step,
        "first": rank_zero_only.rank == 0,
        "weights": module.layer.weight.tolist(),
    }
    print("FACTS", json.dumps(facts))


if __name__ == "__main__":
    main()
