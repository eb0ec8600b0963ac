"""A reward by rules, and groups of answers: a model learns from what it writes itself, in manual optimization.

Group relative policy optimization (Shao et al., "DeepSeekMath", https://arxiv.org/abs/2402.03300): several answers to a
prompt are drawn, a rule gives each a reward, and an answer counts by how far it lies above its group's mean. Each batch
of answers serves several steps, by ratios of probabilities that are clipped. Here the rule rewards each number that is
the one before plus one. The paper's penalty for leaving a reference model is left out, as many do now.
"""

# nox: --max-epochs 1

from __future__ import annotations

import argparse

import torch
from sft import Decoder
from torch import Tensor, nn
from torch.utils.data import DataLoader

import lt as pl

NUMBERS, LENGTH = 8, 8  # different tokens; tokens of an answer


def reward(prompts: Tensor, answers: Tensor) -> Tensor:
    """Return the share of each answer's numbers that are the one before plus one, shape ``(N,)``; no model is asked."""
    row = torch.cat([prompts, answers], dim=1)
    return ((row[:, 1:] - row[:, :-1]) % NUMBERS == 1).float().mean(1)


def group_advantages(rewards: Tensor, group: int) -> Tensor:
    """Return how far each reward lies above the mean of its group, in standard deviations of the group.

    Args:
        rewards: of answers, those to one prompt behind each other; shape ``(prompts * group,)``.
        group: answers to a prompt, 2 or more.
    """
    rows = rewards.view(-1, group)
    return ((rows - rows.mean(1, keepdim=True)) / (rows.std(1, keepdim=True) + 1e-4)).flatten()


def clipped_loss(log_probs: Tensor, drawn: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return minus the mean gain over tokens, shape ``()``; a ratio beyond ``1 - clip`` or ``1 + clip`` pays no more.

    Args:
        log_probs: of the tokens by the model as it is, shape ``(N, tokens)``.
        drawn: by the model that drew them, the same shape.
        advantages: of the answers, shape ``(N,)``.
        clip: how far a ratio may lie from 1.
    """
    ratios, gains = (log_probs - drawn).exp(), advantages[:, None]
    return -torch.minimum(ratios * gains, ratios.clamp(1 - clip, 1 + clip) * gains).mean()


class Policy(pl.LightningModule):
    """Draws groups of answers to the batch's prompts, and takes some steps on them."""

    def __init__(self, group: int = 8, steps: int = 2, clip: float = 0.2, lr: float = 2e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.net = Decoder(NUMBERS, context=LENGTH + 1)

    def log_probs(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Return the log-probability of each token of the answers, shape ``(N, tokens)``."""
        scores = self.net(torch.cat([prompts, answers], dim=1)[:, :-1])[:, prompts.shape[1] - 1 :]
        return -nn.functional.cross_entropy(scores.transpose(1, 2), answers, reduction="none")

    @torch.no_grad()
    def draw(self, prompts: Tensor) -> Tensor:
        """Return an answer to each prompt, each token drawn by its probability; shape ``(N, LENGTH)``."""
        row = prompts
        for _ in range(LENGTH):
            row = torch.cat([row, torch.multinomial(self.net(row)[:, -1].softmax(-1), 1)], dim=1)
        return row[:, prompts.shape[1] :]

    def training_step(self, prompts: Tensor, batch_idx: int) -> None:
        prompts = prompts.repeat_interleave(self.hparams.group, dim=0)
        answers = self.draw(prompts)
        rewards = reward(prompts, answers)
        advantages = group_advantages(rewards, self.hparams.group)
        with torch.no_grad():
            drawn = self.log_probs(prompts, answers)
        optimizer = self.optimizers()
        for _ in range(self.hparams.steps):
            loss = clipped_loss(self.log_probs(prompts, answers), drawn, advantages, self.hparams.clip)
            optimizer.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(optimizer, gradient_clip_val=1.0)
            optimizer.step()
        self.log("reward", rewards.mean(), prog_bar=True)

    def validation_step(self, prompts: Tensor, batch_idx: int) -> None:
        self.log("val_reward", reward(prompts, self.draw(prompts)).mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main() -> None:
    """Train, and compare the rewards before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=4)
    args = parser.parse_args()

    pl.seed_everything(42)
    prompts = torch.randint(0, NUMBERS, (480, 1))
    train, val = DataLoader(prompts[:320], batch_size=16, shuffle=True), DataLoader(prompts[320:], batch_size=160)
    model = Policy()
    trainer = pl.Trainer(max_epochs=args.max_epochs, logger=False, enable_checkpointing=False)
    (before,) = trainer.validate(model, val, verbose=False)
    trainer.fit(model, train)
    (after,) = trainer.validate(model, val, verbose=False)
    print(f"{trainer.global_step} batches of answers, {model.hparams.steps} steps of the optimizer on each")
    print(f"The mean reward rose from {before['val_reward']:.2f} to {after['val_reward']:.2f}")
    print(f"Learned: {after['val_reward'] > before['val_reward'] + 0.1}")


if __name__ == "__main__":
    main()
