"""Low-rank adapters in a frozen GPT: rank 8 in each projection of the attention, AdamW on these alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from real.gpt import loader, loss_of, model

EPOCHS = 2


class Adapted(nn.Module):
    """A linear layer that stays as it is, and a product of two thin matrices beside it."""

    def __init__(self, linear: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) / rank)
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ self.down.T @ self.up.T


def adapted() -> nn.Module:
    """Return the GPT with adapters, all else frozen."""
    net: Any = model().requires_grad_(False)
    for layer in net.layers:
        layer.qkv, layer.out = Adapted(layer.qkv), Adapted(layer.out)
    return net


def by_hand() -> nn.Module:
    """Train."""
    net, batches = adapted(), loader()
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    for epoch in range(EPOCHS):
        for tokens in batches:
            loss = loss_of(net, tokens)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
        torch.save({"epoch": epoch, "model": net.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    return net


def by_trainer(pl: Any) -> nn.Module:
    """Train."""

    class Tuned(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = adapted()

        def training_step(self, tokens: Tensor, batch_idx: int) -> Tensor:
            loss = loss_of(self.net, tokens)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW((p for p in self.parameters() if p.requires_grad), lr=1e-3)

    tuned = Tuned()
    pl.Trainer(max_epochs=EPOCHS).fit(tuned, loader())
    return tuned.net
