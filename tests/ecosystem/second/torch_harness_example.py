"""A training step that survives faults, and the model's structure in a file: the README's two callbacks."""

# requires: torch-harness[lightning]==0.10.1
# domain: tuning

from datetime import timedelta
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch.utils.data import DataLoader, TensorDataset
from torch_harness.lightning import FaultTolerantTrainingStep, FileModelStructure


class Model(LightningModule):
    """A line, one of whose batches is broken and one of whose losses is not a number."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        if batch_idx == 3:
            raise ValueError("a broken record")
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        self.log("loss", loss)
        return loss * float("nan") if batch_idx == 5 else loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


if __name__ == "__main__":
    seed_everything(0)
    x = torch.randn(64, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    print("START")
    fault_tolerance = FaultTolerantTrainingStep(max_faults=4, fault_window=timedelta(hours=1))
    structure = FileModelStructure(output_path=Path("artifacts/model-structure.txt"))
    trainer = Trainer(callbacks=[fault_tolerance, structure], max_epochs=2)
    model = Model()
    trainer.fit(model, loader)
    print("RESULT", trainer.global_step, trainer.callback_metrics["loss"].item())
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
    print("RESULT", Path("artifacts/model-structure.txt").read_text("utf-8").split())
    print("RESULT", "training_step" in vars(model))
    again = Trainer(callbacks=[FaultTolerantTrainingStep(max_faults=1, fault_window=timedelta(hours=1))], max_epochs=1)
    try:
        again.fit(model, loader)
    except Exception as error:  # the second fault is one too many
        print("RESULT", type(error).__name__, error, again.global_step)
