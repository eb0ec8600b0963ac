"""A small GPT on the source of Python's own library: gradients of 4 batches each step, clipped, saved each 10 steps."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from nets import GPT
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

STEPS, LENGTH = 40, 64


class Text(Dataset[Tensor]):
    """Pieces of a text, as bytes (LENGTH + 1,)."""

    def __init__(self) -> None:
        self.text = torch.tensor(list(Path(argparse.__file__).read_bytes()[:61_441]))

    def __len__(self) -> int:
        return (len(self.text) - 1) // LENGTH

    def __getitem__(self, index: int) -> Tensor:
        return self.text[index * LENGTH : (index + 1) * LENGTH + 1]


def model() -> nn.Module:
    """Return the model: 4 layers of width 128."""
    return GPT(256, LENGTH, 128, 4, 4)


def loader() -> DataLoader[Tensor]:
    """Return the loader."""
    return DataLoader(Text(), 8, shuffle=True, drop_last=True)


def loss_of(net: nn.Module, tokens: Tensor) -> Tensor:
    """Return the mean loss of the next byte."""
    return functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def by_hand() -> nn.Module:
    """Train."""
    net, batches = model(), loader()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=STEPS)
    step = epoch = 0
    while step < STEPS:
        for number, tokens in enumerate(batches):
            loss = loss_of(net, tokens)
            (loss / 4).backward()
            if (number + 1) % 4:
                continue
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step}: loss {loss.item():.3f}")
                states = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
                place = {"step": step, "epoch": epoch, "batch": number}
                torch.save({"model": net.state_dict(), **states, **place}, f"step-{step}.pt")
            if step == STEPS:
                break
        epoch += 1
    return net


def by_trainer(pl: Any) -> nn.Module:
    """Train."""

    class Language(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model()

        def training_step(self, tokens: Tensor, batch_idx: int) -> Tensor:
            loss = loss_of(self.net, tokens)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=STEPS)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    language = Language()
    saves = pl.callbacks.ModelCheckpoint(every_n_train_steps=10, save_top_k=-1)
    options = {"accumulate_grad_batches": 4, "gradient_clip_val": 1.0, "log_every_n_steps": 10}
    pl.Trainer(max_steps=STEPS, callbacks=[saves], **options).fit(language, loader())
    return language.net
