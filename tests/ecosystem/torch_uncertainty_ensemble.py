"""Classification routine with a packed ensemble: fit, test with calibration and out-of-distribution metrics."""

# requires: torch-uncertainty==0.13.0 rich
# domain: uncertainty

import torch
from lightning.pytorch import LightningDataModule, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_uncertainty import TUTrainer
from torch_uncertainty.layers import PackedLinear
from torch_uncertainty.routines import ClassificationRoutine
from torch_uncertainty.transforms import RepeatTarget


class Points(LightningDataModule):
    """Points around three centres, and others far away."""

    def __init__(self):
        super().__init__()
        labels = torch.randint(0, 3, (192,))
        self.near = TensorDataset(torch.randn(192, 8) + 2 * labels[:, None], labels)
        self.far = TensorDataset(torch.randn(64, 8) - 6, torch.full((64,), -1))
        self.eval_ood, self.eval_shift = True, False

    def train_dataloader(self):
        return DataLoader(self.near, 32, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.near, 32)

    def test_dataloader(self):
        return [DataLoader(self.near, 32), DataLoader(self.far, 32)]

    def get_test_set(self):
        return self.near


if __name__ == "__main__":
    print("START")
    seed_everything(2)
    ensemble = nn.Sequential(
        PackedLinear(8, 24, alpha=2, num_estimators=3, first=True),
        nn.ReLU(),
        PackedLinear(24, 3, alpha=2, num_estimators=3, last=True),
    )
    data = Points()
    routine = ClassificationRoutine(
        model=ensemble,
        num_classes=3,
        loss=nn.CrossEntropyLoss(),
        is_ensemble=True,
        format_batch_fn=RepeatTarget(3),
        optim_recipe=torch.optim.Adam(ensemble.parameters(), 0.01),
        eval_ood=True,
    )
    trainer = TUTrainer(max_epochs=3, accelerator="cpu", enable_progress_bar=False, logger=False)
    trainer.fit(routine, datamodule=data)
    for key, value in sorted(trainer.test(routine, datamodule=data)[0].items()):
        if not key.startswith("test/cls/flops"):
            print("RESULT", key, value)
