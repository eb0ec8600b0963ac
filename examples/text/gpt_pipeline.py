"""A GPT as a pipeline: each rank holds some of its layers, and with ``--shards`` a part of each of these.

``--devices 2`` is one pipeline of two stages; ``--devices 4 --shards 2`` has two ranks for each stage, over which its
layers, their gradients and optimizer states are sharded. The loss in the end is that of one process, but for the order
of additions, on as many samples a step. What comes out is one checkpoint, with which one process says the next number.
On machines without that many GPUs the ranks are processes on the CPU. Needs torch 2.13.
"""

# nox: --devices 2 --max-steps 10
# nox: --devices 4 --shards 2 --max-steps 10

from __future__ import annotations

import argparse

import torch
from gpt_parallel import CONTEXT, NUMBERS, Block, rows
from torch import Tensor, nn

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.strategies import Pipelined, PipelineParallel


class Embed(nn.Module):
    """The first layer: features of numbers and of their places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.numbers, self.places = nn.Embedding(NUMBERS, width), nn.Embedding(CONTEXT, width)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return features, shape ``(batch, length, width)``."""
        return self.numbers(numbers) + self.places(torch.arange(numbers.shape[1], device=numbers.device))


def loss_of(scores: Tensor, numbers: Tensor) -> Tensor:
    """Return the mean loss of scores of the next number, shape ``(batch, length, NUMBERS)``."""
    return nn.functional.cross_entropy(scores.flatten(0, 1), numbers.flatten())


class LitGPT(pl.LightningModule):
    """The row of layers and the steps: called with targets the row returns the loss, on every rank the same."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net: Pipelined | None = None

    def configure_model(self) -> None:
        """Make the layers, of which a rank keeps its own: none ever holds the whole model."""
        if self.net is None:
            width, heads, depth = self.hparams.width, self.hparams.heads, self.hparams.depth
            blocks = (Block(width, heads) for _ in range(depth))
            self.net = Pipelined([Embed(width), *blocks, nn.Linear(width, NUMBERS)], loss_of)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.net(batch[0][:, :-1], batch[0][:, 1:])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val_loss", self.net(batch[0][:, :-1], batch[0][:, 1:]), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    """Train on as many ranks as asked for, validate, and go on with the file in one process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1, help="ranks that share the layers of a stage")
    parser.add_argument("--max-steps", type=int, default=300)
    args = parser.parse_args()

    pl.seed_everything(42)
    mesh = {"data_shard": args.shards, "pipeline": "auto"}
    last = ModelCheckpoint("pipeline", filename="last", monitor=None)
    trainer = pl.Trainer(
        accelerator="auto" if torch.cuda.device_count() >= args.devices else "cpu",
        devices=args.devices,
        strategy="auto" if args.devices == 1 else PipelineParallel(mesh=mesh, micro_batches=4),
        max_steps=args.max_steps,
        gradient_clip_val=1.0,
        logger=False,
        callbacks=[last],
    )
    model = LitGPT()
    trainer.fit(model, rows(6400, seed=0))
    (metrics,) = trainer.validate(model, rows(640, seed=1), verbose=False)
    trainer.print(f"{trainer.world_size} rank(s), {trainer.global_step} steps: loss {metrics['val_loss']:.4f}")
    if trainer.is_global_zero:
        alone = LitGPT.load_from_checkpoint(last.best_model_path).eval()
        (row,) = next(iter(rows(64, seed=1)))[0][:1]
        print(f"{row[:8].tolist()}... then {alone.net(row[None, :-1])[0, -1].argmax()}; it was {row[-1]}")


if __name__ == "__main__":
    main()
