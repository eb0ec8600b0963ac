"""Policy gradients: a dataset that plays a game of balance with the present weights, an episode of 32 games a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset

EPISODES, GAMES, LENGTH = 60, 32, 40

Episode = tuple[Tensor, Tensor, Tensor]


def policy() -> nn.Module:
    """Return the network from states (N, 4) to logits of two actions (N, 2)."""
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))


class Games(IterableDataset[Episode]):
    """Poles that fall, pushed left or right: states (LENGTH, GAMES, 4), actions and rewards (LENGTH, GAMES)."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net

    def __iter__(self) -> Iterator[Episode]:
        for _ in range(EPISODES):
            state = 0.1 * torch.randn(GAMES, 4)
            states, actions, rewards = [], [], []
            alive = torch.ones(GAMES)
            for _ in range(LENGTH):
                with torch.no_grad():
                    action = Categorical(logits=self.net(state)).sample()
                states.append(state)
                actions.append(action)
                _, speed, angle, turn = state.unbind(1)
                push = 2.0 * action - 1.0
                changes = speed, push - 0.1 * angle, turn, 9.8 * angle - push
                state = state + 0.05 * torch.stack(changes, 1)
                alive = alive * (state[:, 2].abs() < 0.5)
                rewards.append(alive)
            yield torch.stack(states), torch.stack(actions), torch.stack(rewards)


def loss_of(net: nn.Module, episode: Episode) -> Tensor:
    """Return REINFORCE's loss, rewards to go less their mean."""
    states, actions, rewards = episode
    to_go = rewards.flip(0).cumsum(0).flip(0)
    log_probability = Categorical(logits=net(states)).log_prob(actions)
    return -(log_probability * (to_go - to_go.mean(1, keepdim=True))).mean()


def by_hand() -> nn.Module:
    """Train."""
    net = policy()
    games = DataLoader(Games(net), batch_size=None)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for number, episode in enumerate(games):
        loss = loss_of(net, episode)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (number + 1) % 10 == 0:
            print(f"episode {number}: reward {episode[2].sum(0).mean().item():.1f}")
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    return net


def by_trainer(pl: Any) -> nn.Module:
    """Train."""

    class Player(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = policy()

        def train_dataloader(self) -> DataLoader[Any]:
            return DataLoader(Games(self.net), batch_size=None)

        def training_step(self, episode: Episode, batch_idx: int) -> Tensor:
            self.log("reward", episode[2].sum(0).mean(), batch_size=GAMES)
            return loss_of(self.net, episode)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=3e-3)

    player = Player()
    pl.Trainer(max_epochs=1, log_every_n_steps=10).fit(player)
    return player.net
