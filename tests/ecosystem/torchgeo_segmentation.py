"""Its segmentation and regression tasks: fit, early stopping, best checkpoint, test, predict, frozen backbone."""

# requires: torchgeo==0.8.1 requests
# domain: geo

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, Dataset
from torchgeo.trainers import RegressionTask, SemanticSegmentationTask


class Scenes(Dataset):
    """Noisy images whose brightness says the class, or the value."""

    def __init__(self, key):
        draw = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, 3, (24, 32, 32), generator=draw)
        self.images = self.labels[:, None].float() + 0.3 * torch.randn(24, 3, 32, 32, generator=draw)
        self.key = key

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        value = self.labels[index] if self.key == "mask" else self.images[index].mean()[None]
        return {"image": self.images[index], self.key: value}


if __name__ == "__main__":
    print("START")
    seed_everything(0)
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "log_every_n_steps": 1}
    for key, task in (
        ("mask", SemanticSegmentationTask(model="fcn", num_filters=8, num_classes=3, lr=0.01)),
        ("label", RegressionTask(model="resnet18", lr=0.001, freeze_backbone=True)),
    ):
        train, val = DataLoader(Scenes(key), 8, shuffle=True), DataLoader(Scenes(key), 8)
        best = ModelCheckpoint(monitor="val_loss")
        trainer = Trainer(max_epochs=3, callbacks=[best, EarlyStopping("val_loss")], **quiet)
        trainer.fit(task, train, val)
        print("RESULT", best.best_model_path.split("/")[-1], float(best.best_model_score))
        print("RESULT", trainer.test(ckpt_path="best", dataloaders=val))
        print("RESULT", float(sum(said.sum() for said in trainer.predict(task, val))))
