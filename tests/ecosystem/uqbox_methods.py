"""Four methods of a regression's uncertainty: mean and variance, quantiles, MC dropout, SWAG; fit and test."""

# requires: lightning-uq-box==0.2.0
# domain: uncertainty
# compat: --pickle

from functools import partial

import lightning.pytorch as pl
import torch
from lightning_uq_box.uq_methods import NLL, MCDropoutRegression, MVERegression, QuantileRegression, SWAGRegression
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Wave(Dataset):
    """A noisy wave."""

    def __init__(self):
        self.x = torch.linspace(-3, 3, 96)[:, None]
        self.y = torch.sin(self.x) + 0.1 * torch.randn(96, 1)

    def __len__(self):
        return 96

    def __getitem__(self, index):
        return {"input": self.x[index], "target": self.y[index]}


def network(outputs):
    """Return a small network with dropout."""
    return nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, outputs))


if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    data = Wave()
    adam = partial(torch.optim.Adam, lr=0.01)
    mve = MVERegression(network(2), burnin_epochs=1, optimizer=adam)
    for method in (
        mve,
        QuantileRegression(network(3), quantiles=[0.1, 0.5, 0.9], optimizer=adam),
        MCDropoutRegression(network(2), num_mc_samples=5, loss_fn=NLL(), burnin_epochs=1, optimizer=adam),
        SWAGRegression(
            mve.model,
            max_swag_snapshots=2,
            snapshot_freq=1,
            num_mc_samples=4,
            swag_lr=1e-3,
            loss_fn=NLL(),
        ),
    ):
        loader = DataLoader(data, 16, shuffle=True)
        quiet = {"accelerator": "cpu", "enable_progress_bar": False, "logger": False}
        trainer = pl.Trainer(max_epochs=3, default_root_dir="run", **quiet)
        trainer.fit(method, loader, DataLoader(data, 32))
        print("RESULT", type(method).__name__, trainer.test(method, DataLoader(data, 32)))
