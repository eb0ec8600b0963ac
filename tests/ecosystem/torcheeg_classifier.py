"""EEGNet on made-up signals by its classifier trainer: fit, test, predict."""

# requires: torcheeg==1.1.3
# domain: neuroscience

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from torcheeg.models import EEGNet
from torcheeg.trainers import ClassifierTrainer

if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    y = torch.randint(0, 2, (48,))
    data = TensorDataset(torch.randn(48, 1, 8, 128) + 0.3 * y[:, None, None, None], y)
    network = EEGNet(chunk_size=128, num_electrodes=8, num_classes=2, F1=4, F2=8, D=2, kernel_1=16, kernel_2=8)
    trainer = ClassifierTrainer(network, num_classes=2, lr=1e-2, metrics=["accuracy", "f1score"], accelerator="cpu")
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer.fit(DataLoader(data, 8, shuffle=True), DataLoader(data, 16), max_epochs=3, default_root_dir="run", **quiet)
    print("RESULT", trainer.test(DataLoader(data, 16), **quiet))
    print("RESULT", float(torch.cat(trainer.predict(DataLoader(data, 16), **quiet)).sum()))
