"""Fine-tuning in phases by its callback and early stopping: a schedule made by itself, run through, restored best."""

# requires: finetuning-scheduler==2.14.1
# domain: tuning
# fails: it imports insides (`_MockOptimizer` first), saves inside ModelCheckpoint's hook, restores part by part

import lightning.pytorch as pl
import torch
from finetuning_scheduler import FinetuningScheduler, FTSCheckpoint, FTSEarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Layers(pl.LightningModule):
    """A small regression."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))

    def step(self, batch, name):
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x), y)
        self.log(name, loss)
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train_loss")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val_loss")

    def configure_optimizers(self):
        wanted = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return torch.optim.SGD(wanted, lr=0.05)


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    x = torch.randn(96, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True).sin())
    scheduler = FinetuningScheduler()
    callbacks = [scheduler, FTSEarlyStopping("val_loss", patience=1), FTSCheckpoint(monitor="val_loss", save_top_k=2)]
    trainer = pl.Trainer(max_epochs=14, accelerator="cpu", callbacks=callbacks, enable_progress_bar=False)
    model = Layers()
    trainer.fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 32))
    print("RESULT", scheduler.curr_depth, scheduler.max_depth, trainer.current_epoch, trainer.global_step)
    print("RESULT", float(callbacks[2].best_model_score), float(sum(p.sum() for p in model.parameters())))
