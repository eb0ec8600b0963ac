"""ResNet-18 on 512 images of 64 x 64 pixels: random crops and flips in two workers, cosine schedule, validation."""

from __future__ import annotations

from typing import Any

import torch
from nets import ResNet18
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

EPOCHS = 3


class Images(Dataset[tuple[Tensor, int]]):
    """Images (3, 64, 64) whose class is the quarter that is brightest; moved and flipped where they train."""

    def __init__(self, samples: int, seed: int, augment: bool) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randint(0, 200, (samples, 3, 64, 64), generator=generator, dtype=torch.uint8)
        self.labels = torch.randint(0, 4, (samples,), generator=generator).tolist()
        self.augment = augment
        for image, label in zip(self.images, self.labels, strict=True):
            image[:, 32 * (label // 2) :, 32 * (label % 2) :][:, :32, :32] += 50

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index].float() / 255
        if self.augment:
            down, right = torch.randint(0, 9, (2,)).tolist()
            image = functional.pad(image, (4, 4, 4, 4))[:, down : down + 64, right : right + 64]
        return (image - 0.45) / 0.25, self.labels[index]


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return the loaders for training and validation."""
    train = DataLoader(Images(512, 0, True), 32, shuffle=True, num_workers=2, persistent_workers=True)
    return train, DataLoader(Images(128, 1, False), 64)


def by_hand() -> nn.Module:
    """Train."""
    net = ResNet18(4)
    train, validation = loaders()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    best = 0.0
    for epoch in range(EPOCHS):
        net.train()
        for images, labels in train:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
        schedule.step()
        net.eval()
        right = seen = 0
        with torch.no_grad():
            for images, labels in validation:
                right += int((net(images).argmax(1) == labels).sum())
                seen += len(labels)
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {right / seen:.3f}")
        if right / seen > best:
            best = right / seen
            states = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
            torch.save({"epoch": epoch, "model": net.state_dict(), **states}, "best.pt")
    return net


def by_trainer(pl: Any) -> nn.Module:
    """Train."""

    class Classifier(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = ResNet18(4)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            images, labels = batch
            loss = functional.cross_entropy(self.net(images), labels)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            images, labels = batch
            right = (self.net(images).argmax(1) == labels).float().mean()
            self.log("accuracy", right, prog_bar=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
            return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)]

    classifier = Classifier()
    best = pl.callbacks.ModelCheckpoint(monitor="accuracy", mode="max")
    pl.Trainer(max_epochs=EPOCHS, callbacks=[best], num_sanity_val_steps=0).fit(classifier, *loaders())
    return classifier.net
