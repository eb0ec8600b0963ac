"""A GAN of two small networks on images of 16 x 16 pixels: two optimizers, stepped in turns by the user's code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, NOISE = 4, 32


def loader() -> DataLoader[Any]:
    """Return batches of images (64, 256): rings of several sizes."""
    generator = torch.Generator().manual_seed(0)
    radius = 2 + 5 * torch.rand(8192, 1, 1, generator=generator)
    place = torch.arange(16.0) - 7.5
    distance = (place[:, None] ** 2 + place**2).sqrt()
    return DataLoader(TensorDataset(torch.exp(-((distance - radius) ** 2)).flatten(1)), 64, shuffle=True)


def networks() -> nn.ModuleDict:
    """Return the one that draws and the one that judges."""
    draws = nn.Sequential(nn.Linear(NOISE, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    judges = nn.Sequential(nn.Linear(256, 256), nn.LeakyReLU(0.2), nn.Linear(256, 128), nn.LeakyReLU(0.2))
    return nn.ModuleDict({"draws": draws, "judges": nn.Sequential(judges, nn.Linear(128, 1))})


def against(logits: Tensor, value: float) -> Tensor:
    """Return the loss of judgements that should be ``value``."""
    return cross_entropy(logits, torch.full_like(logits, value))


def by_hand() -> nn.Module:
    """Train."""
    nets, batches = networks(), loader()
    draws, judges = nets["draws"], nets["judges"]
    drawing = torch.optim.Adam(draws.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judging = torch.optim.Adam(judges.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for epoch in range(EPOCHS):
        for (real,) in batches:
            drawn = draws(torch.randn(len(real), NOISE))
            judging.zero_grad()
            loss = against(judges(real), 1.0) + against(judges(drawn.detach()), 0.0)
            loss.backward()
            judging.step()
            drawing.zero_grad()
            cheat = against(judges(drawn), 1.0)
            cheat.backward()
            drawing.step()
        print(f"epoch {epoch}: judges {loss.item():.3f}, draws {cheat.item():.3f}")
        states = {"drawing": drawing.state_dict(), "judging": judging.state_dict()}
        torch.save({"epoch": epoch, "model": nets.state_dict(), **states}, "last.pt")
    return nets


def by_trainer(pl: Any) -> nn.Module:
    """Train."""

    class Gan(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.nets = networks()

        def training_step(self, batch: Any, batch_idx: int) -> None:
            (real,) = batch
            draws, judges = self.nets["draws"], self.nets["judges"]
            drawing, judging = self.optimizers()
            drawn = draws(torch.randn(len(real), NOISE))
            judging.zero_grad()
            loss = against(judges(real), 1.0) + against(judges(drawn.detach()), 0.0)
            self.manual_backward(loss)
            judging.step()
            drawing.zero_grad()
            cheat = against(judges(drawn), 1.0)
            self.manual_backward(cheat)
            drawing.step()
            self.log_dict({"judges": loss, "draws": cheat})

        def configure_optimizers(self) -> Any:
            parts = self.nets["draws"], self.nets["judges"]
            return [torch.optim.Adam(part.parameters(), lr=2e-4, betas=(0.5, 0.999)) for part in parts]

    gan = Gan()
    pl.Trainer(max_epochs=EPOCHS).fit(gan, loader())
    return gan.nets
