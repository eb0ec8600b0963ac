"""A network of messages on batches of graphs of 10 to 30 nodes, put side by side by a collate function of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

EPOCHS = 3

Graph = dict[str, Tensor]


def graphs(number: int, seed: int) -> list[Graph]:
    """Return graphs with features of nodes (N, 8), edges (2, E) and the share of nodes with a first feature > 0."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(number):
        nodes = int(torch.randint(10, 31, (), generator=generator))
        x = torch.randn(nodes, 8, generator=generator)
        edges = torch.randint(0, nodes, (2, 3 * nodes), generator=generator)
        found.append({"x": x, "edges": edges, "y": (x[:, 0] > 0).float().mean()})
    return found


def collate(parts: list[Graph]) -> Graph:
    """Put graphs side by side: nodes numbered through, ``graph`` says to which one a node belongs."""
    sizes = torch.tensor([len(part["x"]) for part in parts])
    first = sizes.cumsum(0) - sizes
    return {
        "x": torch.cat([part["x"] for part in parts]),
        "edges": torch.cat([part["edges"] + offset for part, offset in zip(parts, first, strict=True)], 1),
        "y": torch.stack([part["y"] for part in parts]),
        "graph": torch.arange(len(parts)).repeat_interleave(sizes),
    }


class Messages(nn.Module):
    """Two rounds of messages along the edges, then a mean over each graph."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(8, width)
        self.rounds = nn.ModuleList([nn.Linear(2 * width, width), nn.Linear(2 * width, width)])
        self.head = nn.Linear(width, 1)

    def forward(self, batch: Graph) -> Tensor:
        x, (source, target) = functional.relu(self.first(batch["x"])), batch["edges"]
        for linear in self.rounds:
            messages = torch.zeros_like(x).index_add(0, target, x[source])
            x = x + functional.relu(linear(torch.cat([x, messages], 1)))
        sums = x.new_zeros(len(batch["y"]), x.shape[1]).index_add(0, batch["graph"], x)
        return self.head(sums / batch["graph"].bincount()[:, None])[:, 0]


def loaders() -> list[DataLoader[Any]]:
    """Return the loaders for training and validation."""
    train = DataLoader(graphs(4000, 0), 32, shuffle=True, collate_fn=collate)
    return [train, DataLoader(graphs(500, 1), 100, collate_fn=collate)]


def by_hand() -> nn.Module:
    """Train."""
    net = Messages()
    train, validation = loaders()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    best = float("inf")
    for epoch in range(EPOCHS):
        for batch in train:
            loss = functional.mse_loss(net(batch), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total = seen = 0.0
        with torch.no_grad():
            for batch in validation:
                total += functional.l1_loss(net(batch), batch["y"], reduction="sum").item()
                seen += len(batch["y"])
        print(f"epoch {epoch}: loss {loss.item():.4f}, error {total / seen:.4f}")
        if total / seen < best:
            best = total / seen
            torch.save({"epoch": epoch, "model": net.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")
    return net


def by_trainer(pl: Any) -> nn.Module:
    """Train."""

    class Regression(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Messages()

        def training_step(self, batch: Graph, batch_idx: int) -> Tensor:
            loss = functional.mse_loss(self.net(batch), batch["y"])
            self.log("loss", loss, batch_size=len(batch["y"]))
            return loss

        def validation_step(self, batch: Graph, batch_idx: int) -> None:
            error = functional.l1_loss(self.net(batch), batch["y"])
            self.log("error", error, prog_bar=True, batch_size=len(batch["y"]))

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    regression = Regression()
    best = pl.callbacks.ModelCheckpoint(monitor="error")
    pl.Trainer(max_epochs=EPOCHS, callbacks=[best], num_sanity_val_steps=0).fit(regression, *loaders())
    return regression.net
