"""The README's SimCLR on generated pictures: views, a linear probe and a k-NN beside the training, by its Manager"""

# requires: stable-pretraining==0.1.8
# domain: self-supervised

from pathlib import Path

import lightning as pl
import stable_pretraining as spt
import torch
import torchmetrics
from lightning.pytorch.callbacks import ModelCheckpoint
from PIL import Image
from stable_pretraining import forward
from stable_pretraining.data import transforms
from torch import nn

STATIC = spt.data.static.CIFAR10


class Pictures(torch.utils.data.Dataset):
    """Noise over one of four colours."""

    def __init__(self, count, seed):
        drawn = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(4, (count,), generator=drawn)
        colours = torch.tensor([[200, 40, 40], [40, 200, 40], [40, 40, 200], [160, 160, 40]])
        noise = torch.randint(-40, 40, (count, 32, 32, 3), generator=drawn)
        self.pictures = (colours[self.labels][:, None, None] + noise).to(torch.uint8).numpy()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return Image.fromarray(self.pictures[index]), int(self.labels[index])


def view(*more):
    return transforms.Compose(
        transforms.RGB(),
        transforms.RandomResizedCrop((32, 32), scale=(0.2, 1.0)),
        transforms.RandomHorizontalFlip(p=0.5),
        transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, p=0.8),
        transforms.RandomGrayscale(p=0.2),
        *more,
        transforms.ToImage(**STATIC),
    )


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    spt.set(cache_dir=str(Path("cache").absolute()))
    views = transforms.MultiViewTransform([view(), view(transforms.RandomSolarize(threshold=0.5, p=0.2))])
    plain = transforms.Compose(transforms.RGB(), transforms.Resize((32, 32)), transforms.ToImage(**STATIC))
    names = ["image", "label"]
    train_set = spt.data.FromTorchDataset(Pictures(64, 0), names=names, transform=views)
    val_set = spt.data.FromTorchDataset(Pictures(32, 1), names=names, transform=plain)
    data = spt.data.DataModule(
        train=torch.utils.data.DataLoader(train_set, batch_size=16, drop_last=True, shuffle=True),
        val=torch.utils.data.DataLoader(val_set, batch_size=16),
    )
    backbone = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    module = spt.Module(
        backbone=backbone,
        projector=nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(inplace=True), nn.Linear(32, 8)),
        forward=forward.simclr,
        simclr_loss=spt.losses.NTXEntLoss(temperature=0.5),
        optim={
            "optimizer": {"type": "LARS", "lr": 0.5, "weight_decay": 1e-6},
            "scheduler": {"type": "LinearWarmupCosineAnnealing"},
            "interval": "epoch",
        },
    )
    probe = spt.callbacks.OnlineProbe(
        module,
        name="linear_probe",
        input="embedding",
        target="label",
        probe=nn.Linear(16, 4),
        loss=nn.CrossEntropyLoss(),
        metrics={"top1": torchmetrics.classification.MulticlassAccuracy(4)},
    )
    knn = spt.callbacks.OnlineKNN(
        name="knn_probe",
        input="embedding",
        target="label",
        queue_length=64,
        metrics={"accuracy": torchmetrics.classification.MulticlassAccuracy(4)},
        input_dim=16,
        k=5,
    )
    checkpoint = ModelCheckpoint(dirpath="ckpts", filename="{epoch}", save_last=True)
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", callbacks=[knn, probe, checkpoint], log_every_n_steps=1)
    spt.Manager(trainer=trainer, module=module, data=data, seed=42)()
    print("RESULT", trainer.current_epoch, trainer.global_step)
    print("RESULT", sorted((name, value.item()) for name, value in trainer.callback_metrics.items()))
    print("RESULT", sum(p.double().sum().item() for p in backbone.parameters()))
    print("RESULT", sum(p.double().sum().item() for p in probe.module.parameters()))
    print("RESULT", sorted(path.name for path in Path().rglob("*.ckpt")))
    saved = torch.load(checkpoint.last_model_path, weights_only=False)
    print("RESULT", len(saved["state_dict"]), len(saved["optimizer_states"]), saved["global_step"])
