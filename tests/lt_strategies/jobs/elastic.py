"""A fit for torchrun with a changing number of nodes: writes down each batch, and waits where a test wants it to.

The folder in FACTS gets ``steps``, a line of JSON for each batch that was begun: who, of how many, in which run
(``life``: the pid of its rank 0), epoch, optimizer step, samples. Before a batch in HOLDS (``step.micro@ranks ...``)
each rank writes a line to ``held`` and waits until the test has made ``go-step.micro@ranks``, or a signal ends the run.
"""

import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt_strategies import DDP

FACTS = Path(os.environ.get("FACTS", "."))
HOLDS = os.environ.get("HOLDS", "").split()
TIMEOUT = float(os.environ.get("TIMEOUT", "600"))
GLOBAL_BATCH, BATCH, SAMPLES, EPOCHS = 8, 2, 44, 2


def tell(name, **what):
    with (FACTS / name).open("a") as file:
        file.write(json.dumps(what) + "\n")


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.life = 0

    def on_fit_start(self):
        self.life = self.trainer.strategy.broadcast(os.getpid())

    def training_step(self, batch, batch_idx):
        x, y, index = batch
        step, micro = self.global_step, batch_idx % self.trainer.accumulate_grad_batches
        me = {"pid": os.getpid(), "rank": self.global_rank, "world": self.trainer.world_size, "life": self.life}
        self.hold(f"{step}.{micro}@{self.trainer.world_size}", me)
        tell("steps", **me, epoch=self.current_epoch, step=step, samples=index.tolist())
        return nn.functional.mse_loss(self.layers(x), y)

    def hold(self, here, me):
        if here in HOLDS and not (FACTS / f"go-{here}").exists():
            tell("held", at=here, **me)
            while not (FACTS / f"go-{here}").exists() and not self.trainer.received_sigterm:
                time.sleep(0.05)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


def table():
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(SAMPLES, 3, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True).sin(), torch.arange(SAMPLES))


def main():
    pl.seed_everything(1, verbose=False)
    net = Net()
    trainer = pl.Trainer(
        accelerator="cpu", strategy=DDP(timeout=TIMEOUT), max_epochs=EPOCHS, global_batch_size=GLOBAL_BATCH,
        callbacks=pl.callbacks.ModelCheckpoint(FACTS / "saved", every_n_train_steps=2, save_top_k=-1),
        logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=FACTS,
    )  # fmt: skip
    trainer.fit(net, DataLoader(table(), batch_size=BATCH, shuffle=True), ckpt_path="auto")
    if trainer.is_global_zero:
        torch.save({"weights": net.state_dict(), "steps": trainer.global_step}, FACTS / "end")


if __name__ == "__main__":
    main()
