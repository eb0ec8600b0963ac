"""A small GPT that learns to write the sentences of a little grammar, letter by letter.

The text is made here. Shown are a warm-up and decay of the learning rate by step, weight decay for matrices only,
gradient clipping, and text that the model writes in the end.
"""

# nox: --max-steps 20

from __future__ import annotations

import argparse
import math
import random

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

CONTEXT = 64  # letters that the model sees
LETTERS = "abcdefghijklmnopqrstuvwxyz .\n"


def make_text(sentences: int, seed: int) -> str:
    """Return sentences such as ``a small dog sees the bird``, one in each line."""
    draw = random.Random(seed).choice
    nouns, verbs = ["cat", "dog", "bird", "child", "robot"], ["sees", "likes", "follows", "helps"]
    adjectives = ["", "small ", "red ", "happy "]

    def thing() -> str:
        return f"{draw(['the', 'a'])} {draw(adjectives)}{draw(nouns)}"

    return "".join(f"{thing()} {draw(verbs)} {thing()}.\n" for _ in range(sentences))


def make_loader(text: str, *, shuffle: bool) -> DataLoader:
    """Return batches of windows of ``CONTEXT + 1`` letters, as numbers, shape ``(batch, CONTEXT + 1)``."""
    numbers = torch.tensor([LETTERS.index(letter) for letter in text])
    windows = numbers.unfold(0, CONTEXT + 1, CONTEXT)
    return DataLoader(TensorDataset(windows), batch_size=32, shuffle=shuffle)


class Block(nn.Module):
    """Attention to earlier letters, then two linear layers, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return new features, of the shape of ``x``: ``(batch, length, width)``."""
        queries, keys, values = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LitGPT(pl.LightningModule):
    """Embeddings, blocks, and a linear layer that scores the next letter."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2, learning_rate: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.letters, self.places = nn.Embedding(len(LETTERS), width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return scores of the next letter, shape ``(batch, length, letters)``, at each of up to CONTEXT places."""
        places = torch.arange(numbers.shape[1], device=numbers.device)
        return self.head(self.blocks(self.letters(numbers) + self.places(places)))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self._loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val_loss", self._loss(batch), prog_bar=True)

    def _loss(self, batch: list[Tensor]) -> Tensor:
        (windows,) = batch
        return nn.functional.cross_entropy(self(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())

    def configure_optimizers(self) -> dict[str, object]:
        matrices = [p for p in self.parameters() if p.ndim >= 2]
        vectors = [p for p in self.parameters() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.hparams.learning_rate)
        steps = self.trainer.estimated_stepping_batches

        def factor(step: int) -> float:
            return min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @torch.no_grad()
    def write(self, start: str, length: int) -> str:
        """Return ``start`` with ``length`` more letters, each drawn by its probability."""
        numbers = torch.tensor([[LETTERS.index(letter) for letter in start]], device=self.device)
        for _ in range(length):
            scores = self(numbers[:, -CONTEXT:])[:, -1]
            numbers = torch.cat([numbers, torch.multinomial(scores.softmax(dim=-1), 1)], dim=1)
        return "".join(LETTERS[number] for number in numbers[0].tolist())


def main() -> None:
    """Train, and let the model write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-steps", type=int, default=300)
    parser.add_argument("--precision", default="32-true")
    args = parser.parse_args()

    pl.seed_everything(42)
    model = LitGPT()
    trainer = pl.Trainer(
        max_steps=args.max_steps,
        precision=args.precision,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(model, make_loader(make_text(4000, seed=0), shuffle=True))
    (metrics,) = trainer.validate(model, make_loader(make_text(200, seed=1), shuffle=False), verbose=False)
    trainer.print(f"After {trainer.global_step} steps the loss on new sentences is {metrics['val_loss']:.3f}")
    trainer.print(f"The model writes:\n{model.write('the ', 160)}")


if __name__ == "__main__":
    main()
