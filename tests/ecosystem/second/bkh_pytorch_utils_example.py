"""Its module with two datasets, gradient norms and averaged weights for validation; the averaged weights loaded."""

# requires: bkh-pytorch-utils==0.11.1
# domain: templates

import lightning as pl
import torch
from bkh_pytorch_utils import EMA, BKhModule, GradientNorm, add_weight_decay, seed_all
from torch.utils.data import TensorDataset


class Model(BKhModule):
    """A line on two datasets at once."""

    def __init__(self, **named):
        super().__init__(**named)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def training_step(self, batch, batch_idx):
        loss = sum(torch.nn.functional.mse_loss(self(x), y) for x, y in batch.values())
        self.log("train_loss", loss, on_epoch=True, on_step=True, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self(x), y), on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(add_weight_decay(self.model, 1e-2), lr=0.01)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=24)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


if __name__ == "__main__":
    seed_all(0)
    x = torch.randn(64, 4)
    first, second = TensorDataset(x, x.sum(1, keepdim=True)), TensorDataset(-x[:48], x[:48, :1])
    print("START")
    model = Model(
        train_ds={"a": first, "b": second},
        val_ds=first,
        batch_size=8,
        val_batch_size=16,
        dl_workers=0,
        prefetch_factor=None,
    )
    model.stats()
    checkpoint = pl.pytorch.callbacks.ModelCheckpoint(monitor="val_loss", filename="best", save_weights_only=True)
    callbacks = [EMA(decay=0.9), GradientNorm(), checkpoint]
    trainer = pl.Trainer(max_epochs=3, callbacks=callbacks, log_every_n_steps=1)
    trainer.fit(model)
    for name, value in sorted(trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
    model.load_ckpt(checkpoint.best_model_path)
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
