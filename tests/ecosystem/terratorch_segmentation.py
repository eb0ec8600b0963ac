"""A segmentation task with a model and a data module of its own, optimizer and plateau scheduler by name: fit, test."""

# requires: terratorch==1.2.11
# domain: geo
# compat: --pickle

import lightning.pytorch as pl
import torch
from terratorch.models.model import Model, ModelOutput
from terratorch.tasks import SemanticSegmentationTask
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    """Noisy images whose brightness says the class."""

    def __init__(self):
        draw = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, 3, (24, 16, 16), generator=draw)
        self.images = self.labels[:, None].float() + 0.3 * torch.randn(24, 3, 16, 16, generator=draw)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"image": self.images[index], "mask": self.labels[index], "filename": str(index)}


class Pixels(Model):
    """A network of two layers."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x, **kwargs):
        return ModelOutput(self.head(self.encoder(x).relu()))

    def freeze_encoder(self):
        self.encoder.requires_grad_(False)

    def freeze_decoder(self):
        pass


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    task = SemanticSegmentationTask(
        model=Pixels(),
        model_args={"num_classes": 3},
        loss="ce",
        lr=0.01,
        optimizer="AdamW",
        optimizer_hparams={"weight_decay": 0.01},
        scheduler="ReduceLROnPlateau",
        scheduler_hparams={"patience": 1},
        plot_on_val=False,
    )
    train, val = DataLoader(Scenes(), 8, shuffle=True), DataLoader(Scenes(), 8)
    best = pl.callbacks.ModelCheckpoint(monitor="val/loss")
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[best])
    trainer.fit(task, train, val)
    print("RESULT", best.best_model_path.split("/")[-1], float(best.best_model_score))
    print("RESULT", sorted(trainer.test(task, val)[0].items()))
