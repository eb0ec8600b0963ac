"""Makes the files of this folder with the Lightning that is installed: `python make.py FOLDER`.

They were made with pytorch-lightning 1.5.10 and 1.9.5, and lightning 2.6.6; nothing of lt is imported. Each file holds
the checkpoint of a run at the end of its first epoch (`epoch`) or in the middle of its second (`middle`), as Lightning
wrote it, and `end.pt` the weights with which that run ended after the third.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping
except ImportError:
    import pytorch_lightning as pl
    from pytorch_lightning.callbacks import EarlyStopping


def data():
    x = torch.linspace(-1, 1, 80).reshape(20, 4)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), 2)


class Net(pl.LightningModule):
    def __init__(self, width=3, two=False):
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(width)
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 1)
        if two:
            self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = nn.functional.mse_loss(self.second(self.first(batch[0]).tanh()), batch[1])
        if self.hparams.two:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
            self.manual_backward(loss)
            for optimizer in self.optimizers():
                optimizer.step()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        if self.hparams.two:
            return torch.optim.Adam(self.first.parameters(), 0.02), torch.optim.SGD(self.second.parameters(), 0.05)
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        steps = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.8)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": steps, "interval": "step"}}


class Saves(pl.Callback):
    """Saves at the end of some batches, counted from the first of the run."""

    def __init__(self, paths):
        self.paths, self.batches = paths, 0

    def on_train_batch_end(self, trainer, *args, **kwargs):
        self.batches += 1
        if self.batches in self.paths:
            trainer.save_checkpoint(self.paths[self.batches])


def main(folder):
    for name, arguments in {"one": {}, "accumulated": {}, "two": {"two": True}}.items():
        accumulated = {"accumulate_grad_batches": 2} if name == "accumulated" else {}
        saves = Saves({10: folder / f"{name}_epoch.ckpt", 14: folder / f"{name}_middle.ckpt"})
        stops = EarlyStopping("loss", patience=100, check_on_train_epoch_end=True)
        quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
        trainer = pl.Trainer(max_epochs=3, accelerator="cpu", callbacks=[saves, stops], **quiet, **accumulated)
        net = Net(**arguments)
        trainer.fit(net, data())
        torch.save(net.state_dict(), folder / f"{name}_end.pt")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True)
    main(Path(sys.argv[1]))
