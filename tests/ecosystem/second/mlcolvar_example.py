"""Collective variables: DeepTDA and DeepTICA with early stopping and its callback of metrics, an autoencoder."""

# requires: mlcolvar==1.3.1
# domain: chemistry
# differs: its example input is drawn at each read, and its loader shuffles where it begins, which Lightning does twice

import lightning
import torch
from lightning.pytorch.callbacks.early_stopping import EarlyStopping
from mlcolvar.cvs import AutoEncoderCV, DeepTDA, DeepTICA
from mlcolvar.data import DictDataset, DictModule
from mlcolvar.utils.timelagged import create_timelagged_dataset
from mlcolvar.utils.trainer import MetricsCallback


def fit(model, datamodule):
    metrics = MetricsCallback()
    early = EarlyStopping(monitor="valid_loss", min_delta=1e-3, patience=2)
    trainer = lightning.Trainer(
        callbacks=[early, metrics], max_epochs=8, logger=None, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(model, datamodule)
    print("RESULT", trainer.current_epoch, [float(value) for value in metrics.metrics["valid_loss"]])
    print("RESULT", sorted(metrics.metrics), [float(value) for value in metrics.metrics.get("train_loss", [])])
    model.eval()
    with torch.no_grad():
        print("RESULT", model(torch.ones(2, 4)).tolist())


if __name__ == "__main__":
    torch.manual_seed(0)
    print("START")
    x = torch.cat([torch.randn(100, 4), torch.randn(100, 4) + 2])
    labels = torch.cat([torch.zeros(100), torch.ones(100)])
    datamodule = DictModule(DictDataset({"data": x, "labels": labels}), lengths=[0.8, 0.2], batch_size=0)
    tda = DeepTDA(n_states=2, n_cvs=1, target_centers=[-7, 7], target_sigmas=[0.2, 0.2], layers=[4, 8, 1])
    fit(tda, datamodule)
    walk = torch.cumsum(torch.randn(200, 4) * 0.1, 0)
    lagged = create_timelagged_dataset(walk, lag_time=2)
    fit(DeepTICA(layers=[4, 8, 2], n_cvs=1), DictModule(lagged, lengths=[0.8, 0.2], random_split=False))
    fit(
        AutoEncoderCV(encoder_layers=[4, 8, 2]), DictModule(DictDataset({"data": x}), lengths=[0.8, 0.2], batch_size=32)
    )
