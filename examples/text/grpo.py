"""A reward by rules, and groups of answers: a model learns from what it writes itself, in manual optimization.

Group relative policy optimization (Shao et al., "DeepSeekMath", https://arxiv.org/abs/2402.03300): several answers to a
prompt are drawn, a rule gives each a reward, and an answer counts by how far it lies above its group's mean. Each batch
of answers serves several steps, by ratios of probabilities that are clipped. Here the rule rewards each number that is
the one before plus one. Leaving the reference, which is the model as it was, costs ``beta`` times an estimate of the
divergence (KL); many set it to 0 now, and then no reference is asked.
"""

# nox: --max-epochs 1
# nox: --max-epochs 1 --beta 0

from __future__ import annotations

import argparse
import copy

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


def divergence(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return an estimate of the KL divergence from the reference, shape ``()``: never negative, and with little noise.

    From tokens that the model drew (http://joschu.net/blog/kl-approx.html, the third one; the paper's equation 4).

    Args:
        log_probs: of the tokens by the model, shape ``(N, tokens)``.
        reference: the same by the reference.
    """
    apart = reference - log_probs
    return (apart.exp() - apart - 1).mean()


class Policy(pl.LightningModule):
    """Draws groups of answers to the batch's prompts, and takes some steps on them."""

    def __init__(self, group: int = 8, steps: int = 2, clip: float = 0.2, beta: float = 0.01, lr: float = 2e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.net = Decoder(NUMBERS, context=LENGTH + 1)
        self.reference = copy.deepcopy(self.net).requires_grad_(False).eval()

    def log_probs(self, net: nn.Module, prompts: Tensor, answers: Tensor) -> Tensor:
        """Return the log-probability of each token of the answers by a model, shape ``(N, tokens)``."""
        scores = net(torch.cat([prompts, answers], dim=1)[:, :-1])[:, prompts.shape[1] - 1 :]
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
            drawn = self.log_probs(self.net, prompts, answers)
            reference = self.log_probs(self.reference, prompts, answers) if self.hparams.beta else drawn
        optimizer = self.optimizers()
        for _ in range(self.hparams.steps):
            log_probs = self.log_probs(self.net, prompts, answers)
            kl = divergence(log_probs, reference)
            optimizer.zero_grad()
            self.manual_backward(clipped_loss(log_probs, drawn, advantages, self.hparams.clip) + self.hparams.beta * kl)
            self.clip_gradients(optimizer, gradient_clip_val=1.0)
            optimizer.step()
        self.log("reward", rewards.mean(), prog_bar=True)
        if self.hparams.beta:
            self.log("kl", kl, prog_bar=True)

    def validation_step(self, prompts: Tensor, batch_idx: int) -> None:
        self.log("val_reward", reward(prompts, self.draw(prompts)).mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.net.parameters(), lr=self.hparams.lr)


def main() -> None:
    """Train, and compare the rewards before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=4)
    parser.add_argument("--beta", type=float, default=0.01, help="how dear it is to leave the reference; 0: nothing")
    args = parser.parse_args()

    pl.seed_everything(42)
    prompts = torch.randint(0, NUMBERS, (480, 1))
    train, val = DataLoader(prompts[:320], batch_size=16, shuffle=True), DataLoader(prompts[320:], batch_size=160)
    model = Policy(beta=args.beta)
    trainer = pl.Trainer(max_epochs=args.max_epochs, logger=False, enable_checkpointing=False)
    (before,) = trainer.validate(model, val, verbose=False)
    result = trainer.fit(model, train)
    (after,) = trainer.validate(model, val, verbose=False)
    print(f"{trainer.global_step} batches of answers, {model.hparams.steps} steps of the optimizer on each")
    print(f"The mean reward rose from {before['val_reward']:.2f} to {after['val_reward']:.2f}")
    if args.beta:
        print(f"Divergence from the model as it was: {result.metrics['kl']:.2f}")
    print(f"Learned: {after['val_reward'] > before['val_reward'] + 0.1}")


if __name__ == "__main__":
    main()
