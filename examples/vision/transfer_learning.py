"""Transfer learning: a head on torchvision's ResNet-18, whose backbone is frozen at first and unfrozen by a schedule.

The backbone starts with random weights, so that the script needs no network; ``--weights`` downloads those trained on
ImageNet. ``--schedule backbone`` takes the ready-made ``BackboneFinetuning`` in place of the schedule written here.
"""

# nox: --max-epochs 3 --batches 2
# nox: --max-epochs 2 --batches 2 --schedule backbone

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchvision.models import resnet18
from torchvision.transforms.functional import normalize, resize

import lt as pl
from lt.callbacks import BackboneFinetuning, BaseFinetuning


class LitTransfer(pl.LightningModule):
    """ResNet-18 without its last layer, and a linear layer for ten digits."""

    def __init__(self, weights: str | None = None, learning_rate: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.backbone = resnet18(weights=weights)
        self.head = nn.Linear(self.backbone.fc.in_features, 10)
        self.backbone.fc = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, shape ``(batch, 10)``, of images of shape ``(batch, 3, height, width)``."""
        return self.head(self.backbone(images))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, digits = batch
        loss = nn.functional.cross_entropy(self(images), digits)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, digits = batch
        self.log("val_acc", (self(images).argmax(dim=1) == digits).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Give the optimizer what is trained at first; the schedule adds the rest as groups of their own."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return torch.optim.SGD(trained, lr=self.hparams.learning_rate, momentum=0.9)


class Unfreeze(BaseFinetuning):
    """Epoch 0 trains the head, epoch 1 the last block too, epoch 2 and later everything."""

    def freeze_before_training(self, pl_module: pl.LightningModule) -> None:
        self.freeze(pl_module.get_submodule("backbone"), train_bn=False)

    def finetune_function(self, pl_module: pl.LightningModule, epoch: int, optimizer: torch.optim.Optimizer) -> None:
        blocks = dict(pl_module.get_submodule("backbone").named_children())
        last = blocks.pop("layer4")
        if epoch == 1:
            self.unfreeze_and_add_param_group(last, optimizer, lr=1e-3)
        elif epoch == 2:
            self.unfreeze_and_add_param_group(blocks.values(), optimizer, lr=1e-4)


class CountTrained(pl.Callback):
    """Prints in each epoch how many parameters are trained; stands behind the schedule in the list of callbacks."""

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trained = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        groups = [group["lr"] for group in trainer.optimizers[0].param_groups]
        trainer.print(f"Epoch {trainer.current_epoch} trains {trained:,} parameters, learning rates {groups}")


def loaders() -> tuple[DataLoader, DataLoader]:
    """Return real handwritten digits as colour images of shape ``(3, 28, 28)``: 1648 to train, 149 to validate."""
    bunch = load_digits()
    images = resize(torch.from_numpy(bunch.images).float().div(16).unsqueeze(1), [28, 28]).expand(-1, 3, -1, -1)
    images = normalize(images, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    pairs = TensorDataset(images, torch.from_numpy(bunch.target))
    train, val = random_split(pairs, [1648, 149], generator=torch.Generator().manual_seed(0))
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=149)


def main() -> None:
    """Train with a frozen backbone, then unfreeze it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", action="store_true", help="download the weights trained on ImageNet")
    parser.add_argument("--schedule", choices=["blocks", "backbone"], default="blocks")
    parser.add_argument("--max-epochs", type=int, default=4)
    parser.add_argument("--batches", type=int, default=10, help="batches of 32 images in an epoch; -1: all")
    args = parser.parse_args()

    pl.seed_everything(42)
    schedule = Unfreeze() if args.schedule == "blocks" else BackboneFinetuning(1, backbone_initial_lr=1e-3)
    trainer = pl.Trainer(
        max_epochs=args.max_epochs,
        limit_train_batches=1.0 if args.batches == -1 else args.batches,
        callbacks=[schedule, CountTrained()],
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(LitTransfer("DEFAULT" if args.weights else None), *loaders())
    trainer.print(f"Validation accuracy: {float(trainer.callback_metrics['val_acc']):.1%}")


if __name__ == "__main__":
    main()
