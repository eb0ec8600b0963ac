"""Muon for the matrices inside a model, AdamW for the rest, by torch's own classes and one backward pass.

Muon (Jordan et al., https://kellerjordan.github.io/posts/muon) makes each step of a matrix orthogonal. It is meant for
the layers between: embeddings, the last layer, biases and norms stay with AdamW. Each optimizer has its own schedule by
name. In the end the same run by a loop by hand, whose weights are the same, bit for bit.
"""

# nox: --max-steps 10

from __future__ import annotations

import argparse

import torch
from sft import Decoder
from torch import Tensor, nn
from torch.utils.data import DataLoader

import lt as pl
from lt.recipes import schedule

NUMBERS, LENGTH = 16, 24


def muon_and_adamw(net: Decoder) -> dict[str, torch.optim.Optimizer]:
    """Return both optimizers: Muon has the matrices of the blocks. ``match_rms_adamw`` lets both have AdamW's rates."""
    inner = [p for p in net.blocks.parameters() if p.ndim == 2]
    others = [p for p in net.parameters() if all(p is not q for q in inner)]
    return {
        "muon": torch.optim.Muon(inner, lr=3e-3, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        "adamw": torch.optim.AdamW(others, lr=3e-3, weight_decay=0.0),
    }


def loss_of(net: Decoder, rows: Tensor) -> Tensor:
    """Return the mean loss of the next numbers, shape ``()``."""
    return nn.functional.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


class LitDecoder(pl.LightningModule):
    """One loss for both optimizers, which the Trainer steps after one backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Decoder(NUMBERS, context=LENGTH)

    def training_step(self, rows: Tensor, batch_idx: int) -> Tensor:
        loss = loss_of(self.net, rows)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> dict[str, object]:
        steps = self.trainer.estimated_stepping_batches
        return {
            name: {"optimizer": optimizer, "lr_scheduler": schedule(optimizer, "cosine", steps, warmup=0.1, lowest=0.1)}
            for name, optimizer in muon_and_adamw(self.net).items()
        }


def main() -> None:
    """Train by the Trainer and by hand, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-steps", type=int, default=150)
    args = parser.parse_args()

    a, b, start = torch.randint(0, NUMBERS, (3, 32 * args.max_steps, 1))  # the next number is a * number + b
    columns = [start]
    for _ in range(LENGTH):
        columns.append((a * columns[-1] + b) % NUMBERS)
    data = DataLoader(torch.cat(columns, dim=1), batch_size=32)

    pl.seed_everything(42)
    model = LitDecoder()
    trainer = pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False)
    trainer.fit(model, data)
    print(f"After {trainer.global_step} steps the loss is {trainer.callback_metrics['train_loss']:.3f}")

    pl.seed_everything(42)
    net = Decoder(NUMBERS, context=LENGTH).to(model.device)
    optimizers = list(muon_and_adamw(net).values())
    rates = [schedule(one, "cosine", len(data), warmup=0.1, lowest=0.1)["scheduler"] for one in optimizers]
    for rows in data:
        loss_of(net, rows.to(model.device)).backward()
        for one in (*optimizers, *rates):
            one.step()
        net.zero_grad()
    same = all(map(torch.equal, net.state_dict().values(), model.net.state_dict().values()))
    print(f"The loop by hand has the same weights, bit for bit: {same}")


if __name__ == "__main__":
    main()
