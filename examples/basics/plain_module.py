"""A plain ``nn.Module`` on the digits, without a subclass: ``Supervised`` of lt-recipes brings the steps.

The checkpoint holds the weights under the net's own names, so that they load into the bare net, without lt.
"""

# nox: --max-epochs 2

from __future__ import annotations

import argparse
from functools import partial

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics import Accuracy

import lt as pl
from lt_recipes import Supervised


def make_net() -> nn.Module:
    """Make a net that knows nothing of lt."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=20)
    flags = parser.parse_args()
    pl.seed_everything(7)
    bunch = load_digits()
    data = TensorDataset(torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target))
    train, val = random_split(data, [0.8, 0.2])

    module = Supervised(
        make_net(),
        loss=nn.functional.cross_entropy,
        optimizer=partial(torch.optim.Adam, lr=1e-3),
        metrics={"accuracy": Accuracy(task="multiclass", num_classes=10)},
    )
    trainer = pl.Trainer(max_epochs=flags.max_epochs, accelerator="cpu", enable_model_summary=False)
    trainer.fit(module, DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=256))
    print(f"accuracy {trainer.callback_metrics['val_accuracy']:.3f}")

    trainer.save_checkpoint("digits.ckpt")
    bare = make_net()
    bare.load_state_dict(torch.load("digits.ckpt")["state_dict"])
    print("in the bare net:", bare(val[0][0]).argmax().item(), "expected:", val[0][1].item())
