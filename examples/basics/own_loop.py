"""A training loop of one's own, on lt-core alone: no Trainer and no lt-loops.

A ``Strategy`` places the model, moves gradients between the ranks and reduces numbers; ``make_feed`` gives each rank
its part of the data. The same loop runs on one process, and with ``--ranks 2`` on two (lt-strategies and lt-data).
"""

# nox: --max-epochs 1

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import plugins, seed_everything
from lt_core.data import Feed, make_feed
from lt_core.launcher import RunResult
from lt_core.precision import Precision
from lt_core.strategy import Placement, Strategy

SEED = 42


class Classifier(nn.Module):
    """A plain module; the methods that the strategy binds are its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """Return the mean loss of a batch, shape ``()``."""
        pixels, digits = batch
        return nn.functional.cross_entropy(self.layers(pixels), digits)

    def validation_step(self, batch: list[Tensor]) -> Tensor:
        """Return how many of the batch are right, and how many there are; shape ``(2,)``."""
        pixels, digits = batch
        right = (self.layers(pixels).argmax(dim=1) == digits).sum()
        return torch.stack([right, torch.full_like(right, len(digits))])


def make_strategy(ranks: int) -> Strategy:
    """Return a strategy that knows where it will run; ``launch`` starts the processes, where torchrun has not."""
    if ranks == 1:
        return Strategy()
    environment = plugins.load("environments", "torchrun").detect()
    strategy = plugins.load("strategies", "ddp")()
    launcher = plugins.load("launchers", "spawn")()
    place = Placement(devices=tuple(range(ranks)), launcher=launcher)
    strategy.place(place if environment is None else replace(place, environment=environment))
    return strategy


def make_feeds(strategy: Strategy) -> tuple[Feed, Feed]:
    """Return what reads this rank's part of the training and of the validation data."""
    bunch = load_digits()
    pixels, digits = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target)
    train = DataLoader(TensorDataset(pixels[450:], digits[450:]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(pixels[:450], digits[:450]), batch_size=150)
    shared: dict[str, Any] = {"shard": strategy.data_shard, "seed": SEED, "transfer": strategy.to_device}
    return make_feed(train, stage="fit", **shared), make_feed(val, stage="validate", **shared)


def train(strategy: Strategy, max_epochs: int) -> RunResult:
    """Train on this rank; called on every rank. The result of rank 0 is what ``launch`` returns."""
    strategy.open()
    error = None
    try:
        seed_everything(SEED, verbose=False)
        plain = Classifier()
        module, (optimizer,) = strategy.setup(
            plain, lambda: [torch.optim.Adam(plain.parameters(), lr=1e-3)], Precision()
        )
        training_step = strategy.bind(module, "training_step")
        validation_step = strategy.bind(module, "validation_step")
        train_feed, val_feed = make_feeds(strategy)
        accuracy = 0.0
        for epoch in range(max_epochs):
            train_feed.set_epoch(epoch)
            module.train()
            for batch in train_feed:
                loss = training_step(batch) * train_feed.weight  # not 1.0 where a last batch is shared unevenly
                optimizer.zero_grad()
                strategy.backward(loss)
                strategy.optimizer_step(optimizer)
                strategy.batch_done("train")
            accuracy = evaluate(strategy, module, validation_step, val_feed)
            if strategy.rank == 0:
                print(f"Epoch {epoch}: validation accuracy {accuracy:.1%}", flush=True)
        return RunResult(outputs=accuracy, weights=strategy.full_module_state(module))
    except BaseException as caught:
        error = caught
        raise
    finally:
        strategy.close(error)


@torch.no_grad()
def evaluate(strategy: Strategy, module: nn.Module, step: Callable[[Any], Tensor], feed: Feed) -> float:
    """Return the share of right answers over all ranks' data."""
    module.eval()
    counts = torch.zeros(2, dtype=torch.long, device=strategy.device)
    for batch in feed:
        counts += step(batch)
        strategy.batch_done("validate")
    right, count = strategy.all_reduce(counts, "sum").tolist()
    return right / count


def main() -> None:
    """Launch the loop on all ranks and use what came back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--max-epochs", type=int, default=10)
    args = parser.parse_args()

    strategy = make_strategy(args.ranks)
    result = strategy.launch(train, strategy, args.max_epochs)
    model = Classifier()
    model.load_state_dict(result.weights)
    print(f"Trained on {args.ranks} rank(s): accuracy {result.outputs:.1%}")


if __name__ == "__main__":
    main()
