"""The README's Python interface on made data: its Trainer, a head on a flattening backbone, two runs, their records"""

# requires: kaiko-eva==0.4.5
# domain: medicine
# differs: `last.ckpt` is the best epoch on Lightning, the end on lt; an epoch that `max_steps` cuts is counted there

import csv
import json
from pathlib import Path

import lightning.pytorch as pl
import torch
from eva import core
from eva.core import metrics
from eva.core.metrics.structs import MetricsSchema
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import TensorDataset


def pictures(count, seed):
    draws = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 4, (count,), generator=draws)
    images = torch.randn(count, 3, 8, 8, generator=draws)
    images[:, 0] += targets[:, None, None] / 2
    return TensorDataset(images, targets)


if __name__ == "__main__":
    pl.seed_everything(0)
    print("START")

    # initialize trainer
    trainer = core.Trainer(
        max_steps=30,
        n_runs=2,
        accelerator="cpu",
        log_every_n_steps=5,
        callbacks=[
            ModelCheckpoint(filename="best", monitor="val/MulticlassAccuracy", mode="max", save_last=True),
            EarlyStopping("val/MulticlassAccuracy", mode="max", patience=5),
        ],
        logger=[CSVLogger("logs")],
    )

    # initialize model
    model = core.HeadModule(
        backbone=nn.Flatten(),
        head=nn.Linear(192, 4),
        criterion=nn.CrossEntropyLoss(),
        metrics=MetricsSchema(
            common=metrics.AverageLoss(), evaluation=metrics.MulticlassClassificationMetrics(num_classes=4)
        ),
    )

    # initialize data
    here = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None}
    data = core.DataModule(
        datasets=core.DatasetsSchema(train=pictures(64, 0), val=pictures(32, 1), test=pictures(32, 2)),
        dataloaders=core.DataloadersSchema(
            train=core.DataLoader(batch_size=8, shuffle=True, **here),
            val=core.DataLoader(batch_size=8, **here),
            test=core.DataLoader(batch_size=8, **here),
        ),
    )

    # perform fit
    pipeline = core.Interface()
    pipeline.fit(trainer, model=model, data=data)
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
    (results,) = Path("logs").rglob("results.json")
    print("RESULT", json.dumps(json.loads(results.read_text("utf-8"))["metrics"], sort_keys=True))
    for path in sorted(Path("logs").rglob("metrics.csv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                print("RESULT", path.parent.name, sorted((name, value) for name, value in row.items() if value))
    for path in sorted(Path("logs").rglob("*.ckpt")):
        saved = torch.load(path, weights_only=False)
        weights = sum(value.double().sum().item() for value in saved["state_dict"].values())
        print("RESULT", path.parent.parent.name, path.name, saved["epoch"], saved["global_step"], weights)
