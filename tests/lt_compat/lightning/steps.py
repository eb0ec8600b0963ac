"""What each of Lightning's two counters of steps is in every place that a user sees: one line of JSON for each fit.

python steps.py                on Lightning 2.6.6: the data of test_global_step.py (2.6.6/steps.txt)
python -m lt.compat steps.py   on lt

A case is manual optimization by ``count`` optimizers, of which a batch steps those that ``which`` says, or automatic.
"""

import csv
import json
import os
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

WHICH = {
    "all": lambda batch, count: range(count),
    "every other batch": lambda batch, count: range(count) if batch % 2 else (),
    "in turn": lambda batch, count: (batch % count,),
    "first twice": lambda batch, count: (0, *range(count)),
    "first counts": lambda batch, count: range(count),
    "between batches too": lambda batch, count: range(count),
}
HOOKS = (
    *("on_fit_start", "on_train_start", "on_train_epoch_start", "on_train_batch_start", "on_train_batch_end"),
    *("on_validation_start", "on_validation_end", "on_train_epoch_end", "on_train_end", "on_fit_end"),
    *("on_before_optimizer_step", "on_before_zero_grad"),
)
BATCHES = 5


class Net(pl.LightningModule):
    def __init__(self, manual, count, which):
        super().__init__()
        self.automatic_optimization = not manual
        self.which, self.seen = which, []
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 1) for _ in range(count))

    def training_step(self, batch, batch_idx):
        self.log("loss", float(batch_idx))
        loss = sum(layer(batch).sum() for layer in self.layers)
        if self.automatic_optimization:
            return loss
        optimizers = self.optimizers()
        optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
        self.manual_backward(loss)
        for place in WHICH[self.which](batch_idx, len(optimizers)):
            if self.which == "first counts" and place:
                optimizers[place]._on_before_step = optimizers[place]._on_after_step = lambda: None
            optimizers[place].step()
            self.seen.append(("training_step", self.global_step, self.trainer.global_step))
        for each in optimizers:
            each.zero_grad()
        return None

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", 1.0)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.which == "between batches too":
            for each in self.optimizers():
                each.step()

    def configure_optimizers(self):
        made = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in self.layers]
        return made if len(made) > 1 else {"optimizer": made[0]}


class Seen(Callback):
    """Notes both counters in every hook."""


def _noted(name):
    def hook(self, trainer, pl_module, *rest):
        if not trainer.sanity_checking:
            loop = trainer.fit_loop.epoch_loop
            pl_module.seen.append((name, trainer.global_step, loop._batches_that_stepped))

    return hook


for _name in HOOKS:
    setattr(Seen, _name, _noted(_name))


def fit(folder, case, ckpt_path=None):
    """Fit once; return what was seen."""
    model = Net(case["manual"], case["count"], case.get("which", "all"))
    every = ModelCheckpoint(folder, "{epoch}-{step}", save_top_k=-1, every_n_train_steps=case.get("every", 3))
    epochs = ModelCheckpoint(folder, "end-{epoch}-{step}", save_top_k=-1)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=case.get("max_epochs", 2),
        max_steps=case.get("max_steps", -1),
        min_steps=case.get("min_steps"),
        accumulate_grad_batches=case.get("accumulate", 1),
        val_check_interval=case.get("val_check_interval", 1.0),
        log_every_n_steps=case.get("log_every", 2),
        callbacks=[Seen(), LearningRateMonitor("step"), every, epochs],
        logger=CSVLogger(folder, name="", version=""),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = DataLoader(torch.ones(BATCHES, 2))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer.fit(model, data, DataLoader(torch.ones(1, 2)), ckpt_path=ckpt_path)
    files = {}
    for path in sorted(folder.glob("*.ckpt")):
        tree = torch.load(path, weights_only=False)
        loop = tree["loops"]["fit_loop"]
        files[path.stem] = [tree["epoch"], tree["global_step"], loop["epoch_loop.state_dict"]["_batches_that_stepped"]]
    written = folder / "metrics.csv"
    rows = [
        [int(row["step"]), *sorted(name for name, value in row.items() if value and name not in ("step", "epoch"))]
        for row in csv.DictReader(written.read_text("utf-8").splitlines() if written.exists() else ())
    ]
    return {
        "seen": model.seen,
        "after": [trainer.global_step, trainer.fit_loop.epoch_loop._batches_that_stepped, trainer.current_epoch],
        "files": files,
        "rows": rows,
        "said": sorted({str(each.message)[:60] for each in said if "max_steps" in str(each.message)}),
    }


def cases():
    """Yield each case by its name."""
    for count in (1, 2, 3):
        manual = {"manual": True, "count": count}
        for which in WHICH if count == 2 else ("all", "every other batch"):
            yield f"manual {count} {which}", {**manual, "which": which}
        yield f"manual {count} max_steps=4", {**manual, "max_steps": 4}
    manual = {"manual": True, "count": 2}
    yield "manual 2 max_steps=3", {**manual, "max_steps": 3}
    yield "manual 2 every other max_steps=3", {**manual, "max_steps": 3, "which": "every other batch"}
    yield "manual 2 middle", {**manual, "val_check_interval": 2, "every": 2}
    yield "manual 2 each row", {**manual, "log_every": 1, "every": 4}
    for accumulate in (1, 2, 3):
        case = {"manual": False, "count": 1, "accumulate": accumulate}
        yield f"automatic {accumulate}", case
        yield f"automatic {accumulate} max_steps=3", {**case, "max_steps": 3}
    yield "automatic 1 middle", {"manual": False, "count": 1, "val_check_interval": 2, "every": 2, "log_every": 1}


def main():
    chosen = sys.argv[1:]
    for name, case in cases():
        if chosen and not any(word in name for word in chosen):
            continue
        folder = Path(name.replace(" ", "_").replace("=", "_"))
        found = fit(folder / "whole", case)
        files = [stem for stem in found["files"] if not stem.startswith("end")]
        if files and "max_steps" not in name and case.get("accumulate", 1) == 1:
            found["from"] = min(files, key=lambda stem: found["files"][stem][1])
            found["resumed"] = fit(folder / "again", case, folder / "whole" / f"{found['from']}.ckpt")
        print("CASE", json.dumps([name, found]), flush=True)


if __name__ == "__main__":
    os.environ["PYTHONHASHSEED"] = "0"
    main()
