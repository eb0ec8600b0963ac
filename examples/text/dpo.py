"""Preference tuning (DPO): towards chosen answers and away from rejected ones, beside a frozen reference.

Rafailov et al., "Direct Preference Optimization", https://arxiv.org/abs/2305.18290. The reference is the model as it
was: a part of the module, so that it goes to the device with it, but without gradients, in no optimizer and in no
checkpoint (``exclude="reference.*"``; a resume takes it from where it came, and warns where its values are others).
Here rows of numbers may go up or down, and going up is preferred. The loss looks at the difference of the two alone:
with a smaller ``beta`` or a larger rate, chosen answers become less likely too, as the printed numbers would show.
"""

# nox: --max-steps 20

from __future__ import annotations

import argparse
import copy
from typing import Any

import torch
from sft import Decoder
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid
from torch.utils.data import DataLoader

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.recipes import schedule

NUMBERS, PROMPT, LENGTH = 16, 2, 10


def answer_log_probs(net: nn.Module, rows: Tensor) -> Tensor:
    """Return the log-probability of each row's answer, the tokens from ``PROMPT`` on; shape ``(N,)``."""
    scores = net(rows[:, :-1])[:, PROMPT - 1 :]
    return -cross_entropy(scores.transpose(1, 2), rows[:, PROMPT:], reduction="none").sum(1)


def dpo_loss(policy: tuple[Tensor, Tensor], reference: tuple[Tensor, Tensor], beta: float) -> tuple[Tensor, Tensor]:
    """Return the loss, shape ``()``, and how much more each chosen answer gained than the rejected one, shape ``(N,)``.

    Args:
        policy: log-probabilities of chosen and rejected answers, each of shape ``(N,)``.
        reference: the same by the frozen model.
        beta: how dear it is to leave the reference.
    """
    margins = beta * ((policy[0] - reference[0]) - (policy[1] - reference[1]))
    return -logsigmoid(margins).mean(), margins


class Preferring(pl.LightningModule):
    """Trains a copy of the model that it is given."""

    def __init__(self, base: Decoder, beta: float = 0.5, lr: float = 3e-4) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["base"])
        self.policy = copy.deepcopy(base)
        self.reference = copy.deepcopy(base).requires_grad_(False).eval()  # lt leaves the mode of its parts alone

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        chosen, rejected = batch
        both = torch.cat([chosen, rejected])  # one pass for both
        with torch.no_grad():
            reference = answer_log_probs(self.reference, both).chunk(2)
        loss, margins = dpo_loss(answer_log_probs(self.policy, both).chunk(2), reference, self.hparams.beta)
        self.log("train_loss", loss, prog_bar=True)
        self.log("preferred", (margins > 0).float().mean(), prog_bar=True)
        return loss

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.policy.parameters(), lr=self.hparams.lr)
        steps = self.trainer.estimated_stepping_batches
        return {"optimizer": optimizer, "lr_scheduler": schedule(optimizer, "linear", steps, warmup=0.1)}


class Pretraining(pl.LightningModule):
    """Learns rows of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Decoder(NUMBERS, context=LENGTH)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return -answer_log_probs(self.net, torch.cat(batch)).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def pairs(count: int) -> DataLoader:
    """Return pairs of rows with the same first numbers: one goes up from there, the other one down."""
    start = torch.randint(0, NUMBERS, (count, PROMPT), generator=torch.Generator().manual_seed(0))
    steps = torch.arange(1, LENGTH - PROMPT + 1)
    up, down = (torch.cat([start, (start[:, -1:] + sign * steps) % NUMBERS], dim=1) for sign in (1, -1))
    return DataLoader(torch.utils.data.TensorDataset(up, down), batch_size=32, shuffle=True)


def main() -> None:
    """Train a model that does both, tune it, and count what it writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-steps", type=int, default=100)
    args = parser.parse_args()

    pl.seed_everything(42)
    data, base = pairs(3200), Pretraining()
    quiet = {"logger": False, "enable_model_summary": False}
    pl.Trainer(max_steps=100, enable_checkpointing=False, **quiet).fit(base, data)

    model, keep = Preferring(base.net), ModelCheckpoint("dpo", exclude="reference.*")
    trainer = pl.Trainer(max_steps=args.max_steps, max_epochs=-1, callbacks=[keep], gradient_clip_val=1.0, **quiet)
    trainer.fit(model, data)

    pair = next(iter(data))
    for name, net in (("the reference", model.reference), ("the tuned model", model.policy)):
        up, down = (answer_log_probs(net, rows).exp().mean() for rows in pair)
        print(f"By {name} rows go up with a probability of {up:.2f}, down with {down:.2f}")
    saved = torch.load(keep.best_model_path, weights_only=True)
    print(f"Saved: {sorted({name.split('.')[0] for name in saved['state_dict']})}")
    unchanged = all(map(torch.equal, model.reference.state_dict().values(), base.net.state_dict().values()))
    print(f"The reference is the model as it was: {unchanged}")


if __name__ == "__main__":
    main()
