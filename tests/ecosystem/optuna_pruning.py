"""A study of eight trials with the pruning callback."""

# requires: optuna-integration[pytorch-lightning]==5.0.0
# domain: tuning
# slice:

import lightning.pytorch as pl
import optuna
import torch
from optuna_integration import PyTorchLightningPruningCallback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Line(pl.LightningModule):
    """A small regression."""

    def __init__(self, width, rate):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def training_step(self, batch, batch_idx):
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.rate)


def objective(trial):
    """Train once; return the error."""
    pl.seed_everything(trial.number, verbose=False)
    model = Line(trial.suggest_int("width", 2, 16), trial.suggest_float("rate", 1e-4, 1e-1, log=True))
    trainer = pl.Trainer(
        max_epochs=6,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[PyTorchLightningPruningCallback(trial, monitor="val_loss")],
    )
    trainer.fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 64))
    return trainer.callback_metrics["val_loss"].item()


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    x = torch.randn(128, 4)
    data = TensorDataset(x, x.prod(1, keepdim=True))
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1), pruner=optuna.pruners.MedianPruner(2, 1))
    study.optimize(objective, n_trials=8)
    print("RESULT", study.best_value, study.best_params)
    for trial in study.trials:
        print("RESULT", trial.state.name, len(trial.intermediate_values), trial.value)
