"""The README's three steps: tuning by its `htuning`, a `config.yaml`, training by its `trainer` command line"""

# requires: lightorch==0.0.6 einops jsonargparse[signatures]>=4.52
# domain: templates

import contextlib
import csv
import io
import sys
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule, seed_everything
from lightorch.hparams import htuning
from lightorch.nn.criterions import MSELoss
from lightorch.nn.dnn import DeepNeuralNetwork
from lightorch.training.cli import trainer
from lightorch.training.supervised import Module
from torch.utils.data import DataLoader, TensorDataset

CONFIG = """
trainer:
  logger:
    class_path: CSVLogger
    init_args: {save_dir: logs}
  enable_checkpointing: true
  max_epochs: 4
  accelerator: cpu
  devices: 1
  precision: 32
  log_every_n_steps: 1
model:
  class_path: lightorch_example.Net
  dict_kwargs:
    optimizer: adam
    triggers:
      net: {lr: 1.0e-2, weight_decay: 0.0}
      head: {lr: 2.0e-2}
    scheduler: onecycle
    scheduler_kwargs: {max_lr: [1.0e-2, 2.0e-2]}
data:
  class_path: lightorch_example.Lines
  init_args: {batch_size: 8, pin_memory: false, num_workers: 0}
"""


class Net(Module):
    """A regression with two groups of parameters."""

    def __init__(self, **hparams):
        super().__init__(**hparams)
        self.net = DeepNeuralNetwork(4, (16, 8), (torch.nn.ReLU, torch.nn.Sigmoid))
        self.head = torch.nn.Linear(8, 1)
        self.criterion = MSELoss()

    def forward(self, x):
        return self.head(self.net(x))

    def loss_forward(self, batch, idx):
        x, y = batch
        return {"input": self(x), "target": y}


class Lines(LightningDataModule):
    def __init__(self, batch_size: int = 8, pin_memory: bool = False, num_workers: int = 0):
        super().__init__()
        self.options = {"batch_size": batch_size, "pin_memory": pin_memory, "num_workers": num_workers}

    def setup(self, stage):
        x = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
        self.data = TensorDataset(x, x.sum(1, keepdim=True))

    def train_dataloader(self):
        return DataLoader(self.data, shuffle=True, **self.options)

    def val_dataloader(self):
        return DataLoader(self.data, **self.options)


def objective(trial):
    return {"optimizer": "adamw", "triggers": {"net": {"lr": 0.01}, "head": {"lr": 0.02}}}


if __name__ == "__main__":
    print("START")
    seed_everything(0)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        htuning(
            model_class=Net,
            hparam_objective=objective,
            datamodule=Lines,
            datamodule_kwargs={"batch_size": 8},
            valid_metrics=["MSELoss", "hp_metric"],
            directions=["minimize", "minimize"],
            precision="medium",
            n_trials=1,
            trainer_kwargs={
                "logger": True,
                "enable_checkpointing": False,
                "max_epochs": 3,
                "accelerator": "cpu",
                "devices": 1,
                "precision": "bf16-mixed",
                "limit_train_batches": 1 / 3,
                "limit_val_batches": 1 / 3,
            },
        )
    print("RESULT", [line.strip() for line in told.getvalue().splitlines() if line.startswith("\tvalues")])
    Path("config.yaml").write_text(CONFIG, "utf-8")
    sys.argv = ["training", "fit", "-c", "config.yaml"]
    trainer()
    run = Path("logs/lightning_logs/version_0")
    with (run / "metrics.csv").open(encoding="utf-8") as file:
        for row in list(csv.DictReader(file))[-3:]:
            print("RESULT", sorted((name, value) for name, value in row.items() if value))
    (saved,) = (run / "checkpoints").glob("*.ckpt")
    weights = torch.load(saved, weights_only=False)["state_dict"]
    print("RESULT", saved.name, sum(value.double().sum().item() for value in weights.values()))
