"""A GPT from scratch on several ranks: sharded by FSDP, split inside its layers by tensor parallelism, or both.

``--devices 2 --tensor 1`` shards parameters, gradients and optimizer states; ``--tensor 2`` splits each layer over two
ranks that read the same batch; ``--devices 4 --tensor 2`` does both. The first weights are those of one process; so are
the trained ones, but for the order of additions, on as many samples a step (here a rank has 64). On machines without
that many GPUs the ranks are processes on the CPU.
"""

# nox: --devices 2 --max-steps 10
# nox: --devices 2 --tensor 2 --max-steps 10

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.strategies import FSDP, ModelParallel

CONTEXT, NUMBERS = 32, 16


class Block(nn.Module):
    """Attention to earlier numbers, then two linear layers, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return new features, of the shape of ``x``: ``(batch, length, width)``."""
        y = self.norm1(x)
        # a rank has heads of its own where the layers are split: their number follows from the width that is here
        parts = (layer(y).unflatten(2, (-1, self.head_width)) for layer in (self.queries, self.keys, self.values))
        seen = nn.functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


PLAN = {  # one sum over the ranks after attention, one after the two linear layers
    "queries": ColwiseParallel(),
    "keys": ColwiseParallel(),
    "values": ColwiseParallel(),
    "out": RowwiseParallel(),
    "wide": ColwiseParallel(),
    "narrow": RowwiseParallel(),
}


class GPT(nn.Module):
    """Embeddings, blocks, and a linear layer that scores the next number."""

    def __init__(self, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.numbers, self.places = nn.Embedding(NUMBERS, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, NUMBERS)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return scores of the next number, shape ``(batch, length, NUMBERS)``."""
        x = self.numbers(numbers) + self.places(torch.arange(numbers.shape[1], device=numbers.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class LitGPT(pl.LightningModule):
    """The steps; the layers are made and spread in ``configure_model``, so that no rank ever holds the whole model."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net: GPT | None = None

    def configure_model(self) -> None:
        """Make the layers, and spread them where there is a mesh with two dimensions; ``FSDP`` shards by itself."""
        if self.net is not None:
            return
        self.net = GPT(self.hparams.width, self.hparams.heads, self.hparams.depth)
        mesh = self.device_mesh
        if mesh is not None and "tensor_parallel" in mesh.mesh_dim_names:
            for block in self.net.blocks:
                parallelize_module(block, mesh["tensor_parallel"], PLAN)
                fully_shard(block, mesh=mesh["data_parallel"])
            fully_shard(self.net, mesh=mesh["data_parallel"])

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self._loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val_loss", self._loss(batch), prog_bar=True)

    def _loss(self, batch: list[Tensor]) -> Tensor:
        (rows,) = batch
        return nn.functional.cross_entropy(self.net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def rows(count: int, seed: int) -> DataLoader:
    """Return rows of ``CONTEXT + 1`` numbers; in each row the next one is ``(a * last + b) % NUMBERS``."""
    random = torch.Generator().manual_seed(seed)
    a, b, number = (torch.randint(0, NUMBERS, (count,), generator=random) for _ in range(3))
    columns = [number]
    for _ in range(CONTEXT):
        columns.append((a * columns[-1] + b) % NUMBERS)
    return DataLoader(TensorDataset(torch.stack(columns, dim=1)), batch_size=64, shuffle=seed == 0)


def main() -> None:
    """Train on as many ranks as asked for, and validate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--tensor", type=int, default=1, help="ranks that share the work on one batch")
    parser.add_argument("--max-steps", type=int, default=300)
    args = parser.parse_args()

    pl.seed_everything(42)
    strategy = "auto" if args.devices == 1 else FSDP(auto_wrap_policy=[Block])
    if args.tensor > 1:
        strategy = ModelParallel(args.devices // args.tensor, args.tensor)
    trainer = pl.Trainer(
        accelerator="auto" if torch.cuda.device_count() >= args.devices else "cpu",
        devices=args.devices,
        strategy=strategy,
        max_steps=args.max_steps,
        gradient_clip_val=1.0,
        logger=False,
    )
    model = LitGPT()
    trainer.fit(model, rows(6400, seed=0))
    (metrics,) = trainer.validate(model, rows(640, seed=1), verbose=False)
    trainer.print(f"{trainer.world_size} rank(s), {trainer.global_step} steps: loss {metrics['val_loss']:.4f}")


if __name__ == "__main__":
    main()
