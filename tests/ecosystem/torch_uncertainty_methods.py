"""A Gaussian regression, and a classifier with SWAG and one of packed networks: fit with validation, test."""

# requires: torch-uncertainty[cpu,distribution]==0.13.0 scikit-learn
# domain: uncertainty

import torch
from lightning.pytorch import Trainer, seed_everything
from torch.nn import CrossEntropyLoss
from torch.utils.data import DataLoader, TensorDataset
from torch_uncertainty.losses import DistributionNLLLoss
from torch_uncertainty.methods import SWAG
from torch_uncertainty.models.mlp import mlp, packed_mlp
from torch_uncertainty.routines import ClassificationRoutine, RegressionRoutine
from torch_uncertainty.transforms import RepeatTarget


def adam(model):
    """Return its optimizer."""
    return torch.optim.Adam(model.parameters(), lr=0.02)


def run(routine, data):
    """Train and test; print what both have logged."""
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "enable_checkpointing": False, "logger": False}
    trainer = Trainer(max_epochs=4, **quiet)
    trainer.fit(routine, DataLoader(data, 16, shuffle=True), DataLoader(data, 32))
    print("RESULT", {name: float(value) for name, value in sorted(trainer.callback_metrics.items())})
    print("RESULT", trainer.test(routine, DataLoader(data, 32)), float(sum(p.sum() for p in routine.parameters())))


if __name__ == "__main__":
    print("START")
    seed_everything(0)
    x = torch.randn(96, 4)
    wave, side = TensorDataset(x, x.sum(1).sin()), TensorDataset(x, (x.sum(1) > 0).long())
    normal = mlp(4, 1, [16], dist_family="normal")
    run(RegressionRoutine(normal, 1, DistributionNLLLoss(), "normal", optim_recipe=adam), wave)
    swag = SWAG(mlp(4, 2, [16]), cycle_start=1, cycle_length=1, max_num_models=2, num_estimators=3)
    packed, repeated = packed_mlp(4, 2, [16], num_estimators=2), RepeatTarget(2)
    run(ClassificationRoutine(swag, 2, CrossEntropyLoss(), is_ensemble=True, optim_recipe=adam), side)
    several = {"is_ensemble": True, "format_batch_fn": repeated}
    run(ClassificationRoutine(packed, 2, CrossEntropyLoss(), optim_recipe=adam, **several), side)
