"""A project in the style of the hydra template: groups of YAML, everything by instantiate, a sweep of two runs."""

# requires: hydra-core==1.3.* hydra-colorlog rich torchmetrics
# domain: templates
# slice:

import sys
import types
from pathlib import Path

import hydra
import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MaxMetric, MeanMetric
from torchmetrics.classification import Accuracy

FILES = {
    "train.yaml": """
defaults: [_self_, {data: points}, {model: net}, {callbacks: default}, {logger: csv}, {trainer: default}]
seed: 7
ckpt_path: null
""",
    "data/points.yaml": "{_target_: project.Points, batch_size: 16, splits: [96, 32, 32]}",
    "model/net.yaml": """
_target_: project.Net
optimizer: {_target_: torch.optim.Adam, _partial_: true, lr: 0.01, weight_decay: 0.0}
scheduler: {_target_: torch.optim.lr_scheduler.ReduceLROnPlateau, _partial_: true, mode: min, factor: 0.1, patience: 1}
net: {_target_: torch.nn.Linear, in_features: 5, out_features: 3}
compile: false
""",
    "callbacks/default.yaml": """
model_checkpoint:
  _target_: lightning.pytorch.callbacks.ModelCheckpoint
  dirpath: checkpoints
  filename: epoch_{epoch:03d}
  monitor: val/acc
  mode: max
  save_last: true
  auto_insert_metric_name: false
early_stopping: {_target_: lightning.pytorch.callbacks.EarlyStopping, monitor: val/acc, patience: 100, mode: max}
model_summary: {_target_: lightning.pytorch.callbacks.RichModelSummary, max_depth: -1}
""",
    "logger/csv.yaml": "csv: {_target_: lightning.pytorch.loggers.csv_logs.CSVLogger, save_dir: logs, name: csv/}",
    "trainer/default.yaml": """
_target_: lightning.pytorch.trainer.Trainer
default_root_dir: .
min_epochs: 1
max_epochs: 4
accelerator: cpu
devices: 1
check_val_every_n_epoch: 1
deterministic: false
enable_progress_bar: false
""",
}


class Points(L.LightningDataModule):
    """Points around three centres, split at random."""

    def __init__(self, batch_size, splits):
        super().__init__()
        self.save_hyperparameters(logger=False)
        self.train = self.val = self.test = None

    def setup(self, stage=None):
        if self.train is None:
            y = torch.randint(0, 3, (sum(self.hparams.splits),))
            data = TensorDataset(torch.randn(len(y), 5) + y[:, None], y)
            draw = torch.Generator().manual_seed(42)
            self.train, self.val, self.test = torch.utils.data.random_split(data, self.hparams.splits, draw)

    def train_dataloader(self):
        return DataLoader(self.train, self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, self.hparams.batch_size)

    def test_dataloader(self):
        return DataLoader(self.test, self.hparams.batch_size)


class Net(L.LightningModule):
    """A classifier that keeps metrics as the template does."""

    def __init__(self, net, optimizer, scheduler, compile):  # noqa: A002
        super().__init__()
        self.save_hyperparameters(logger=False, ignore=["net"])
        self.net = net
        self.train_acc, self.val_acc, self.test_acc = (Accuracy("multiclass", num_classes=3) for _ in range(3))
        self.train_loss, self.val_loss, self.test_loss = MeanMetric(), MeanMetric(), MeanMetric()
        self.val_acc_best = MaxMetric()

    def on_train_start(self):
        self.val_loss.reset()
        self.val_acc.reset()
        self.val_acc_best.reset()

    def step(self, batch, loss_metric, accuracy, stage):
        logits = self.net(batch[0])
        loss = nn.functional.cross_entropy(logits, batch[1])
        loss_metric(loss)
        accuracy(logits.argmax(1), batch[1])
        self.log(f"{stage}/loss", loss_metric, on_step=False, on_epoch=True, prog_bar=True)
        self.log(f"{stage}/acc", accuracy, on_step=False, on_epoch=True, prog_bar=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, self.train_loss, self.train_acc, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, self.val_loss, self.val_acc, "val")

    def on_validation_epoch_end(self):
        self.val_acc_best(self.val_acc.compute())
        self.log("val/acc_best", self.val_acc_best.compute(), sync_dist=True, prog_bar=True)

    def test_step(self, batch, batch_idx):
        self.step(batch, self.test_loss, self.test_acc, "test")

    def configure_optimizers(self):
        optimizer = self.hparams.optimizer(params=self.trainer.model.parameters())
        scheduler = self.hparams.scheduler(optimizer=optimizer)
        watched = {"scheduler": scheduler, "monitor": "val/loss", "interval": "epoch", "frequency": 1}
        return {"optimizer": optimizer, "lr_scheduler": watched}


@rank_zero_only
def log_hyperparameters(cfg, model, trainer):
    """Send what was chosen to all loggers."""
    chosen = OmegaConf.to_container(cfg)
    chosen["model/params/total"] = sum(parameter.numel() for parameter in model.parameters())
    for logger in trainer.loggers:
        logger.log_hyperparams(chosen)


@hydra.main(version_base="1.3", config_path=str(Path.cwd() / "configs"), config_name="train")
def main(cfg: DictConfig):
    """Train and test as train.py of the template does."""
    L.seed_everything(cfg.seed, workers=True)
    datamodule: L.LightningDataModule = hydra.utils.instantiate(cfg.data)
    model: L.LightningModule = hydra.utils.instantiate(cfg.model)
    callbacks = [hydra.utils.instantiate(one) for one in cfg.callbacks.values()]
    logger = [hydra.utils.instantiate(one) for one in cfg.logger.values()]
    assert all(isinstance(one, Callback) for one in callbacks)
    assert all(isinstance(one, Logger) for one in logger)
    trainer: L.Trainer = hydra.utils.instantiate(cfg.trainer, callbacks=callbacks, logger=logger)
    log_hyperparameters(cfg, model, trainer)
    trainer.fit(model=model, datamodule=datamodule, ckpt_path=cfg.get("ckpt_path"))
    best = trainer.checkpoint_callback.best_model_path
    trained = dict(trainer.callback_metrics)
    trainer.test(model=model, datamodule=datamodule, ckpt_path=best, weights_only=False)
    metrics = {**trained, **trainer.callback_metrics}
    print("RESULT", Path(best).name, sorted((name, float(value)) for name, value in metrics.items()))


if __name__ == "__main__":
    print("START")
    for name, text in FILES.items():
        path = Path("configs") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project = types.ModuleType("project")
    project.Points, project.Net = Points, Net
    sys.modules["project"] = project
    sys.argv[1:] = ["-m", "model.optimizer.lr=0.01,0.1", "hydra.sweep.dir=sweep"]
    main()
