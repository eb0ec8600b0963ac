"""Trains a small classifier on devices of a kind and prints what came of it, as JSON.

Arguments: accelerator, devices, and which facts: ``plain`` (weights, validation), ``formats`` (16-mixed with its scaler
in a checkpoint, bf16-mixed, accumulation and clipping), ``compile``, ``loading`` (pinned memory, workers, side stream).
"""

import json
import os
import sys
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_loops import Trainer

ACCELERATOR, DEVICES, FACTS = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SAMPLES, BATCH = 320, 16


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        self.seen = set()

    def training_step(self, batch, batch_idx):
        scores = self.net(batch[0])
        self.seen.add((scores.dtype, batch[0].device.type))
        loss = nn.functional.cross_entropy(scores, batch[1])
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        # of a gradient that is next to nothing an adaptive optimizer keeps the sign alone, which differs by device
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def loader(devices, **how):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, 8, generator=generator)
    return DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=BATCH // devices, **how)


def fit(folder, accelerator=ACCELERATOR, devices=DEVICES, how=None, **arguments):
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)
    strategy = {"strategy": "ddp" if devices > 1 else "single"}
    where = {"accelerator": accelerator, "devices": devices, "default_root_dir": folder, **strategy}
    trainer = Trainer(**{"max_epochs": 2, **quiet, **where, **arguments})
    module, how = Classifier(), how or {}
    trainer.fit(module, loader(devices, **how), loader(devices))
    return module, trainer


def distance(module, other):
    pairs = zip(module.state_dict().values(), other.state_dict().values(), strict=True)
    return max((a.float().cpu() - b.float().cpu()).abs().max().item() for a, b in pairs)


def plain(folder):
    module, trainer = fit(folder)
    oracle, _ = fit(folder, "cpu", 1) if trainer.is_global_zero else (module, None)
    return {
        "distance": distance(module, oracle),
        "val": trainer.callback_metrics["val"].item(),
        "steps": trainer.global_step,
        "device": {kind for _, kind in module.seen},
    }


def find(tree, key):
    """Return the first value under ``key`` anywhere in a nest of dicts."""
    if not isinstance(tree, dict):
        return None
    return tree[key] if key in tree else next(filter(None, (find(value, key) for value in tree.values())), None)


def formats(folder):
    oracle, _ = fit(folder)
    half, trainer = fit(folder, precision="16-mixed")
    path = f"{folder}/half.ckpt"
    trainer.save_checkpoint(path)
    saved = torch.load(path, weights_only=True)
    bf16, _ = fit(folder, precision="bf16-mixed")
    window, _ = fit(folder, precision="16-mixed", accumulate_grad_batches=2, gradient_clip_val=0.5)
    return {
        "16": distance(half, oracle),
        "16 dtype": {str(dtype) for dtype, _ in half.seen},
        "scale": find(saved, "scale"),
        "bf16": distance(bf16, oracle),
        "bf16 dtype": {str(dtype) for dtype, _ in bf16.seen},
        "finite": all(bool(p.isfinite().all()) for p in window.parameters()),
    }


def compiles(folder):
    oracle, _ = fit(folder)
    compiled, _ = fit(folder, compile=True)
    return {"distance": distance(compiled, oracle), "keys": list(compiled.state_dict()) == list(oracle.state_dict())}


def loading(folder):
    oracle, _ = fit(folder)
    how = {"num_workers": 2, "pin_memory": ACCELERATOR != "cpu", "persistent_workers": True}
    fed, _ = fit(folder, how=how)
    return {"distance": distance(fed, oracle)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        facts = {"plain": plain, "formats": formats, "compile": compiles, "loading": loading}[FACTS](place)
        if "LT_RANK" not in os.environ:  # rank 0 is this script as the user started it
            print(json.dumps(facts, default=sorted))
