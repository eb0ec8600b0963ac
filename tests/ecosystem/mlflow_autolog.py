"""Its autolog and its checkpoint callback: parameters, metrics, early stopping, checkpoints, all read back."""

# requires: mlflow==3.17.2
# domain: tracking

import mlflow
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classes(pl.LightningModule):
    """A small classifier."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    mlflow.set_tracking_uri("sqlite:///runs.db")
    mlflow.pytorch.autolog(log_models=False)
    y = torch.randint(0, 3, (96,))
    data = TensorDataset(torch.randn(96, 6) + y[:, None], y)
    stop = pl.callbacks.EarlyStopping("val_loss", patience=2)
    saves = mlflow.pytorch.MlflowModelCheckpointCallback(monitor="val_loss")
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_epochs=4, callbacks=[stop, saves], **quiet)
    with mlflow.start_run() as run:
        trainer.fit(Classes(), DataLoader(data, 16, shuffle=True), DataLoader(data, 32))
    best = mlflow.pytorch.load_checkpoint(Classes, run.info.run_id)
    print("RESULT", float(sum(parameter.sum() for parameter in best.parameters())))
    client = mlflow.tracking.MlflowClient()
    print("RESULT", sorted(client.get_run(run.info.run_id).data.params.items()))
    for name in sorted(client.get_run(run.info.run_id).data.metrics):
        print("RESULT", name, [(row.step, row.value) for row in client.get_metric_history(run.info.run_id, name)])
