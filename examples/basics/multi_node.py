"""Several machines: the commands that start a job, and the same job on two "machines" that are this one.

``uv run examples/basics/multi_node.py`` starts torchrun twice, as one does on two machines, each with one process;
both sides meet on this machine's loopback address. On real machines only the addresses differ: see
docs/how-to/multi-node.md.
"""

# nox: --max-epochs 2

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from contextlib import closing

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

COMMANDS = """On real machines (node0 is the first one's name), on each of them:
  torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=node0:29400 --rdzv-id=job train.py
By SLURM:
  srun --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 python train.py
In train.py:
  pl.Trainer(devices=8, num_nodes=2, strategy="ddp")
"""


class Line(pl.LightningModule):
    """Learns y = 2x + 1."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def train(max_epochs: int) -> None:
    """Train; this is what runs on every machine."""
    pl.seed_everything(0, verbose=False)
    x = torch.linspace(0, 1, 256).unsqueeze(1)  # shape (256, 1)
    trainer = pl.Trainer(
        max_epochs=max_epochs,
        accelerator="cpu",
        devices=1,
        num_nodes=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Line()
    trainer.fit(model, DataLoader(TensorDataset(x, 2 * x + 1), batch_size=16, shuffle=True))
    where = f"node {trainer.node_rank}, rank {trainer.global_rank} of {trainer.world_size}"
    print(f"{where}: {trainer.global_step} steps, weight {model.layer.weight.item():.6f}\n", end="", flush=True)


def start_both(max_epochs: int) -> list[int]:
    """Start torchrun for each of two "machines" and return their exit statuses."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    jobs = []
    for node in range(2):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=example"]
        command += [f"--rdzv-conf=is_host={1 - node}", "--local-addr=127.0.0.1"]
        command += [__file__, "--max-epochs", str(max_epochs)]
        jobs.append(subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}))
    return [job.wait() for job in jobs]


def main() -> None:
    """Train where torchrun has started this process; else start it, twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        train(args.max_epochs)
        return
    print(COMMANDS, flush=True)
    statuses = start_both(args.max_epochs)
    print(f"Both machines are done, with status {statuses}")
    sys.exit(max(map(abs, statuses)))


if __name__ == "__main__":
    main()
