"""Reinforcement learning: an actor and a critic that learn to balance a pole, optimized by hand.

There is no dataset: each batch is a number of steps in eight copies of gymnasium's CartPole, played with the present
weights. The training step plays, computes both losses and steps two optimizers, in manual mode.
Run it with ``uv run --group examples examples/rl/actor_critic.py``.
"""

# nox needs gymnasium
# nox: --max-steps 60

from __future__ import annotations

import argparse
from collections.abc import Iterator

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset

import lt as pl

GAMMA, LENGTH, COPIES = 0.99, 16, 8


class Rollouts(IterableDataset):
    """Plays on and on; each item is what happened in ``LENGTH`` steps of all copies."""

    def __init__(self, actor: nn.Module) -> None:
        self.actor = actor
        self.games = gymnasium.make_vec("CartPole-v1", num_envs=COPIES)
        self.returns: list[float] = []

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield states ``(LENGTH + 1, COPIES, 4)``, and actions, rewards and ends, each ``(LENGTH, COPIES)``."""
        state, _ = self.games.reset(seed=int(torch.randint(2**31, ())))
        totals = np.zeros(COPIES)
        while True:
            states, actions, rewards, ends = [state], [], [], []
            for _ in range(LENGTH):
                with torch.no_grad():
                    device = next(self.actor.parameters()).device
                    action = Categorical(logits=self.actor(torch.from_numpy(state).to(device))).sample()
                state, reward, terminated, truncated, _ = self.games.step(action.cpu().numpy())
                totals += reward
                for over in np.flatnonzero(terminated | truncated):
                    self.returns.append(totals[over])
                    totals[over] = 0
                states.append(state)
                actions.append(action.cpu())
                rewards.append(torch.from_numpy(reward).float())
                ends.append(torch.from_numpy(terminated | truncated))
            yield {
                "states": torch.from_numpy(np.stack(states)),
                "actions": torch.stack(actions),
                "rewards": torch.stack(rewards),
                "ends": torch.stack(ends),
            }


class ActorCritic(pl.LightningModule):
    """Two networks: one chooses, one says how much is still to come."""

    def __init__(self, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
        self.rollouts = Rollouts(self.actor)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.rollouts, batch_size=None)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(part.parameters(), lr=self.hparams.lr) for part in (self.actor, self.critic)]

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        actor, critic = self.optimizers()
        values = self.critic(batch["states"]).squeeze(-1)
        future, targets = values[-1].detach(), []
        for reward, end in zip(batch["rewards"].flip(0), batch["ends"].flip(0), strict=True):
            future = reward + GAMMA * future * ~end
            targets.append(future)
        advantages = torch.stack(targets[::-1]) - values[:-1]

        critic.zero_grad()
        self.manual_backward(advantages.square().mean())
        critic.step()

        chosen = Categorical(logits=self.actor(batch["states"][:-1]))
        scores = chosen.log_prob(batch["actions"]) * advantages.detach()
        actor.zero_grad()
        self.manual_backward(-scores.mean() - 0.01 * chosen.entropy().mean())
        actor.step()
        recent = self.rollouts.returns[-20:] or [0.0]
        self.log_dict({"return": float(np.mean(recent)), "games": float(len(self.rollouts.returns))}, prog_bar=True)


def main() -> None:
    """Play and learn, and print how long the pole stays up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-steps", type=int, default=1500, help="steps of each of the two optimizers")
    args = parser.parse_args()

    pl.seed_everything(42)
    model = ActorCritic()
    pl.errors.silence(["LT801"])  # playing takes longer than learning, as it must here
    trainer = pl.Trainer(max_steps=args.max_steps, log_every_n_steps=20, enable_checkpointing=False)
    trainer.fit(model)
    returns = model.rollouts.returns
    print(
        f"{len(returns)} games in {trainer.global_step} steps; the pole stays up for {np.mean(returns[:20]):.0f} steps"
    )
    print(f"at first, and for {np.mean(returns[-20:]):.0f} in the end (500 is the most)")


if __name__ == "__main__":
    main()
