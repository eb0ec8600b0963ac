"""A LightningCLI project: config file, objects by class_path, linked arguments, callbacks; fit, test, load."""

# requires: jsonargparse[signatures]>=4.52 tensorboard
# domain: templates
# slice:

import sys
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONFIG = """
seed_everything: 3
trainer:
  max_epochs: 3
  accelerator: cpu
  enable_progress_bar: false
  gradient_clip_val: 0.5
  callbacks:
    - class_path: lightning.pytorch.callbacks.ModelCheckpoint
      init_args: {monitor: val_loss, save_top_k: 1, filename: "{epoch}-{step}", dirpath: kept}
    - class_path: LearningRateMonitor
  logger:
    class_path: lightning.pytorch.loggers.CSVLogger
    init_args: {save_dir: logs}
data: {size: 96, features: 6}
model:
  width: 12
  activation: {class_path: torch.nn.GELU}
optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.02}}
lr_scheduler: {class_path: torch.optim.lr_scheduler.StepLR, init_args: {step_size: 1, gamma: 0.5}}
"""


class Sums(LightningDataModule):
    """Vectors and the sine of their sums."""

    def __init__(self, size: int = 64, features: int = 4) -> None:
        super().__init__()
        x = torch.randn(size, features)
        self.data = TensorDataset(x, x.sum(1, keepdim=True).sin())

    def train_dataloader(self):
        return DataLoader(self.data, 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.data, 32)

    test_dataloader = predict_dataloader = val_dataloader


class Net(LightningModule):
    """A small regression; `features` comes from the data."""

    def __init__(self, activation: nn.Module, features: int = 4, width: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["activation"])
        self.layers = nn.Sequential(nn.Linear(features, width), activation, nn.Linear(width, 1))

    def loss(self, batch, name):
        loss = nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        self.log(name, loss)
        return loss

    def training_step(self, batch, batch_idx):
        return self.loss(batch, "train_loss")

    def validation_step(self, batch, batch_idx):
        self.loss(batch, "val_loss")

    def test_step(self, batch, batch_idx):
        self.loss(batch, "test_loss")

    def predict_step(self, batch, batch_idx):
        return self.layers(batch[0])


class Command(LightningCLI):
    """The project's command."""

    def add_arguments_to_parser(self, parser):
        parser.link_arguments("data.features", "model.features")
        parser.add_argument("--note", default="none")

    def before_fit(self):
        self.trainer.logger.log_hyperparams({"note": self.config["fit"]["note"]})


def call(*words):
    """Run the command as the shell would."""
    sys.argv[1:] = words
    return Command(Net, Sums, save_config_kwargs={"overwrite": True})


if __name__ == "__main__":
    print("START")
    Path("config.yaml").write_text(CONFIG)
    trained = call("fit", "--config", "config.yaml", "--model.width=16", "--note=first")
    best = trained.trainer.checkpoint_callback
    print("RESULT", Path(best.best_model_path).name, float(best.best_model_score))
    rows = Path(trained.trainer.log_dir, "metrics.csv").read_text().splitlines()
    names, rows = rows[0].split(","), [row.split(",") for row in rows[1:]]
    print("RESULT", *([row[names.index(name)] for row in rows] for name in ("val_loss", "lr-AdamW", "step")))
    print("RESULT", Path(trained.trainer.log_dir, "config.yaml").exists())
    shared = ["--config", "tested.yaml", "--model.width=16"]
    Path("tested.yaml").write_text(CONFIG.partition("optimizer:")[0])
    tested = call("test", *shared)
    print("RESULT", float(tested.trainer.callback_metrics["test_loss"]))
    loaded = Net.load_from_checkpoint(best.best_model_path, activation=nn.GELU(), weights_only=False)
    print("RESULT", loaded.hparams.width, float(loaded.layers(torch.ones(1, 6))))
