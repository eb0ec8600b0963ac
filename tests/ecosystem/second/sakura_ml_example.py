"""The README's quickstart: its runtime's services by the adapter, evaluation and checkpoints off the training loop"""

# requires: sakura-ml==1.1.0
# domain: training services

from pathlib import Path

import lightning as L
import torch
from sakura import SakuraRuntime
from sakura.adapters import LightningAdapter
from sakura.dispatch import InThreadDispatcher, ThreadDispatcher
from sakura.services import AsyncCheckpoint, AsyncEval, MixedPrecision, Telemetry
from torch.utils.data import DataLoader, TensorDataset


class Model(L.LightningModule):
    """Three classes of points by a small network."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", torch.nn.functional.cross_entropy(self(x), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def evaluate(model, loader):
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(model(x).float(), y).item() for x, y in loader]
    return sum(losses) / len(losses)


if __name__ == "__main__":
    print("START")
    L.seed_everything(0)
    x = torch.randn(96, 8)
    data = TensorDataset(x, x[:, :3].argmax(1))
    train_loader, val_loader = DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=32)
    model, records = Model(), []
    with SakuraRuntime() as rt:
        rt.install(Telemetry(output=records.append))
        rt.install(MixedPrecision(dtype="bf16"))
        rt.install(
            AsyncEval(
                eval_fn=lambda epoch, payload: {"val_loss": evaluate(model, val_loader)},
                eval_payload={},
                dispatcher=InThreadDispatcher(),
            )
        )
        rt.install(
            AsyncCheckpoint(
                dir="ckpt/",
                every="best",
                metric="val_loss",
                dispatcher=ThreadDispatcher(),
                state_provider=lambda: {k: v.cpu() for k, v in model.state_dict().items()},
            )
        )
        trainer = L.Trainer(max_epochs=4, accelerator="cpu", callbacks=[LightningAdapter(rt)], log_every_n_steps=1)
        trainer.fit(model, train_loader, val_loader)
    print("RESULT", trainer.global_step, sorted((k, v.item()) for k, v in trainer.callback_metrics.items()))
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()), evaluate(model, val_loader))
    print(
        "RESULT",
        len(records),
        [record["event"] for record in records[:6]],
        sorted(records[-2]["payload"]["metrics"].items()),
    )
    print("RESULT", rt._by_name["async_eval"].history)
    print("RESULT", sorted(path.name for path in Path("ckpt").rglob("*")), model.training)
