"""SimCLR with lightly's online classifier; its linear classifier on the trained backbone."""

# requires: lightly==1.6.0
# domain: self-supervised
# slice:

import pytorch_lightning as pl
import torch
from lightly.loss import NTXentLoss
from lightly.models.modules import SimCLRProjectionHead
from lightly.utils.benchmarking import LinearClassifier, MetricCallback, OnlineLinearClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SimCLR(pl.LightningModule):
    """Two noisy views of each image, and a classifier that learns beside."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = SimCLRProjectionHead(32, 32, 16)
        self.criterion = NTXentLoss()
        self.online = OnlineLinearClassifier(feature_dim=32, num_classes=10)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        first, second = (self.backbone(images + 0.1 * torch.randn_like(images)) for _ in range(2))
        loss = self.criterion(self.head(first), self.head(second))
        beside, metrics = self.online.training_step((first.detach(), labels), batch_idx)
        self.log_dict(metrics, sync_dist=True, batch_size=len(labels))
        return loss + beside

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        loss, metrics = self.online.validation_step((self.backbone(images).detach(), labels), batch_idx)
        self.log_dict(metrics, sync_dist=True, batch_size=len(labels))
        return loss

    def configure_optimizers(self):
        slow = [*self.backbone.parameters(), *self.head.parameters()]
        groups = [{"params": slow}, {"params": self.online.parameters(), "weight_decay": 0.0}]
        return torch.optim.SGD(groups, lr=0.05)


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    images, labels = torch.randn(96, 3, 16, 16), torch.randint(0, 4, (96,))
    data = TensorDataset(images + 0.5 * labels[:, None, None, None], labels)
    train, val = DataLoader(data, 24, shuffle=True), DataLoader(data, 24)
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "logger": False, "enable_checkpointing": False}
    metrics = MetricCallback()
    model = SimCLR()
    pl.Trainer(max_epochs=3, callbacks=[metrics], **quiet).fit(model, train, val)
    for name in ("val_online_cls_loss", "val_online_cls_top1"):
        print("RESULT", name, *(f"{float(value):.6f}" for value in metrics.val_metrics[name]))
    linear = LinearClassifier(model=model.backbone, batch_size_per_device=24, feature_dim=32, num_classes=10)
    trainer = pl.Trainer(max_epochs=2, **quiet)
    trainer.fit(linear, train, val)
    print("RESULT", f"{float(trainer.callback_metrics['val_loss']):.6f}")
