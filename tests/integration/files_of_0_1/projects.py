"""The runs whose checkpoints are kept beside this file: written by 0.1, resumed by every later version.

As a script it does one of them: ``python projects.py NAME FOLDER [CKPT]``. Without a checkpoint it trains from the
start and leaves ``NAME.ckpt``, written on the way, and ``NAME.end.pt``, the weights at the end; with one it goes on
from there and leaves the weights. The kept files are those of 0.1, before any of its code was moved. Only names that
users know are used here, so that every version runs this file as it stands.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt import Callback, LightningModule, Trainer
from lt.callbacks import EarlyStopping, EMAWeightAveraging, ModelCheckpoint


def data(rows=44, **options):
    x = torch.linspace(-1, 1, rows * 4).reshape(rows, 4)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), 4, **{"shuffle": True, **options})


class Net(LightningModule):
    """Dropout, a shuffled loader, a schedule by steps and epoch means: a resume that forgets one of them shows."""

    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(3)
        self.first, self.drop, self.second = nn.Linear(4, 5), nn.Dropout(0.2), nn.Linear(5, 1)

    def loss(self, batch):
        return nn.functional.mse_loss(self.second(self.drop(self.first(batch[0]).tanh())), batch[1])

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        torch.rand(1)
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        steps = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.8)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": steps, "interval": "step"}}


class Manual(Net):
    """Manual optimization that steps after every second batch, so that gradients wait in the checkpoint."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        self.manual_backward(super().training_step(batch, batch_idx) / 2)
        if batch_idx % 2:
            optimizer.step()
            optimizer.zero_grad()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


class Named(Net):
    """Two optimizers by name, each with a loss of its own."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return {"first": loss, "second": loss * 0.5}

    def configure_optimizers(self):
        return {
            "first": torch.optim.Adam(self.first.parameters(), lr=0.05),
            "second": torch.optim.SGD(self.second.parameters(), lr=0.1, momentum=0.9),
        }


class SavesAt(Callback):
    """Asks for a checkpoint after so many training batches, counted over the epochs."""

    def __init__(self, path, batches):
        self.path, self.batches, self.seen = path, batches, 0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen += 1
        if self.seen == self.batches:
            trainer.request_save(self.path)


class SignalsInValidation(Callback):
    """Sends this process SIGTERM in the second batch of the second epoch's validation."""

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
        if trainer.current_epoch == 1 and batch_idx == 1 and not trainer.sanity_checking:
            os.kill(os.getpid(), signal.SIGTERM)


def kept_by_callbacks(folder):
    """Return callbacks with state; their files lie beside the checkpoint."""
    return [
        EarlyStopping("val_loss", patience=3),
        ModelCheckpoint(dirpath=folder / "best", monitor="val_loss", save_top_k=2),
        EMAWeightAveraging(decay=0.9, update_every_n_steps=1),
    ]


PROJECTS = {
    # name: module, arguments of the Trainer, after how many batches it was saved
    "epochs_middle": (Net, {}, 15),
    "epochs_end": (Net, {"check_val_every_n_epoch": 2}, 22),
    "window_middle": (Net, {"accumulate_grad_batches": 3, "gradient_clip_val": 0.1}, 16),
    "validation_middle": (Net, {"val_check_interval": 5}, None),  # a signal asks for this one
    "manual": (Manual, {}, 15),
    "named": (Named, {}, 15),
    "callbacks": (Net, {"val_check_interval": 4}, 18),
    "two_ranks": (Net, {"strategy": "ddp", "devices": 2, "accumulate_grad_batches": 2}, 7),
    "sharded": (Net, {"strategy": "fsdp", "devices": 2}, 7),
}


def trained(name, folder, ckpt_path=None):
    """Do the run ``name``; return its Trainer."""
    kind, arguments, batches = PROJECTS[name]
    arguments = {"max_epochs": 3, "logger": False, "accelerator": "cpu", "num_sanity_val_steps": 1, **arguments}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "silence": ["LT321"]}
    callbacks = kept_by_callbacks(folder) if name == "callbacks" else []
    if name == "validation_middle":
        callbacks = [ModelCheckpoint(dirpath=folder), *([] if ckpt_path else [SignalsInValidation()])]
        arguments["on_signal"] = "return"
    if name == "sharded":
        from lt.strategies import FSDP

        arguments["strategy"] = FSDP(state_dict_type="sharded")
    if ckpt_path is None and batches is not None:
        callbacks.append(SavesAt(str(folder / f"{name}.ckpt"), batches))
    saves = any(isinstance(callback, ModelCheckpoint) for callback in callbacks)
    trainer = Trainer(
        callbacks=callbacks,
        enable_checkpointing=saves,
        default_root_dir=folder,
        **{**quiet, **arguments},
    )
    module = kind()
    trainer.fit(module, data(), data(12, shuffle=False), ckpt_path=ckpt_path)
    return trainer, module


def weights_of(module):
    """Return the module's weights; those of a module that is spread over ranks, whole."""
    return {
        name: value.full_tensor() if hasattr(value, "full_tensor") else value
        for name, value in module.state_dict().items()
    }


def write(name, folder):
    """Leave a checkpoint of the run ``name`` and how it ended."""
    trainer, module = trained(name, folder)
    if name == "validation_middle":  # only its beginning was done
        (folder / "interrupted.ckpt").rename(folder / f"{name}.ckpt")
        trainer, module = trained(name, folder, str(folder / f"{name}.ckpt"))
    leave(trainer, module, folder / f"{name}.end.pt")


def leave(trainer, module, path):
    """Write down the weights with which a run ended."""
    weights = weights_of(module)
    if trainer.is_global_zero:
        torch.save({"weights": weights, "step": trainer.global_step}, path)


if __name__ == "__main__":
    name, folder = sys.argv[1], Path(sys.argv[2])
    if len(sys.argv) == 3:
        write(name, folder)
    else:
        leave(*trained(name, folder, sys.argv[3]), folder / f"{name}.end.pt")
