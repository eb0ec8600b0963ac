"""Texts of different lengths in batches of so many tokens, by ``TokenBudget``; against batches of so many texts.

Prints what share of the tokens in a batch is padding.
"""

# nox: --max-epochs 1

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import lt as pl
from lt.data import TokenBudget

PADDING = 0


class Parity(pl.LightningModule):
    """Says whether a text has an even number of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 16, padding_idx=PADDING)
        self.read = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 2)

    def training_step(self, texts: Tensor, batch_idx: int) -> Tensor:
        real = texts != PADDING
        self.log("padding", 1 - real.float().mean(), on_step=False, on_epoch=True, batch_size=texts.numel())
        states, _ = self.read(self.embed(texts))
        last = states[torch.arange(len(texts)), real.sum(1) - 1]
        return nn.functional.cross_entropy(self.head(last), real.sum(1) % 2)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def pad(texts: list[Tensor]) -> Tensor:
    """Return texts as one tensor, shape ``(texts, tokens of the longest)``."""
    return nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PADDING)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=1024)
    flags = parser.parse_args()
    pl.seed_everything(0)
    lengths = torch.randint(2, 60, (2000,)).tolist()
    texts = [torch.randint(1, 100, (length,)) for length in lengths]
    budget = TokenBudget(lengths, flags.max_tokens)
    loaders = {
        "so many tokens": DataLoader(texts, batch_sampler=budget, collate_fn=pad),
        "so many texts": DataLoader(texts, batch_size=len(texts) // len(budget), shuffle=True, collate_fn=pad),
    }
    for name, loader in loaders.items():
        trainer = pl.Trainer(max_epochs=flags.max_epochs, accelerator="cpu", logger=False, enable_model_summary=False)
        trainer.fit(Parity(), loader)
        print(f"batches of {name}: {trainer.callback_metrics['padding']:.0%} padding")
