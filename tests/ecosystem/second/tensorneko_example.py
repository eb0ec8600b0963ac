"""The README's classifier of made digits: its model, MLP and Trainer with two loggers, monitored files, test"""

# requires: tensorneko==0.3.25 tensorboard
# domain: templates

from collections.abc import Sequence
from pathlib import Path

import lightning.pytorch as pl
import tensorneko as neko
import torch.nn
from lightning.pytorch.callbacks import ModelCheckpoint
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorneko.util import get_activation, get_loss
from torch import Tensor
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import Accuracy


class MnistClassifier(neko.NekoModel):
    def __init__(
        self,
        name: str,
        mlp_neurons: list[int],
        activation: str,
        dropout_rate: float,
        loss: str,
        learning_rate: float,
        weight_decay: float,
    ):
        super().__init__(name)
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate

        self.flatten = torch.nn.Flatten()
        self.mlp = neko.module.MLP(
            neurons=mlp_neurons, build_activation=get_activation(activation), dropout_rate=dropout_rate
        )
        self.loss_func = get_loss(loss)()
        self.acc_func = Accuracy("multiclass", num_classes=10)

    def forward(self, x):
        # (batch, 28, 28)
        x = self.flatten(x)
        # (batch, 768)
        return self.mlp(x)
        # (batch, 10)

    def training_step(
        self, batch: Tensor | Sequence[Tensor] | None = None, batch_idx: int | None = None
    ) -> dict[str, Tensor]:
        x, y = batch
        logit = self(x)
        prob = logit.sigmoid()
        loss = self.loss_func(logit, y)
        acc = self.acc_func(prob.max(dim=1)[1], y)
        return {"loss": loss, "acc": acc}

    def validation_step(
        self,
        batch: Tensor | Sequence[Tensor] | None = None,
        batch_idx: int | None = None,
        dataloader_idx: int | None = None,
    ) -> dict[str, Tensor]:
        x, y = batch
        logit = self(x)
        prob = logit.sigmoid()
        loss = self.loss_func(logit, y)
        acc = self.acc_func(prob.max(dim=1)[1], y)
        return {"loss": loss, "acc": acc}

    def configure_optimizers(self):
        optimizer = Adam(self.parameters(), lr=self.learning_rate, betas=(0.5, 0.9), weight_decay=self.weight_decay)
        return {"optimizer": optimizer}


class Digits(pl.LightningDataModule):
    def setup(self, stage):
        draws = torch.Generator().manual_seed(0)
        y = torch.randint(0, 10, (240,), generator=draws)
        x = torch.rand(10, 28, 28, generator=draws)[y] + 0.3 * torch.randn(240, 28, 28, generator=draws)
        self.parts = {"fit": TensorDataset(x[:160], y[:160]), "val": TensorDataset(x[160:], y[160:])}

    def train_dataloader(self):
        return DataLoader(self.parts["fit"], batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts["val"], batch_size=16)

    test_dataloader = val_dataloader


if __name__ == "__main__":
    pl.seed_everything(0)
    print("START")
    model = MnistClassifier("mnist_mlp_classifier", [784, 64, 32, 10], "ReLU", 0.5, "CrossEntropyLoss", 1e-3, 1e-4)

    dm = Digits()

    trainer = neko.NekoTrainer(
        log_every_n_steps=5,
        accelerator="cpu",
        max_epochs=3,
        logger=model.name,
        precision=32,
        callbacks=[
            ModelCheckpoint(
                dirpath="./ckpt",
                save_last=True,
                filename=model.name + "-{epoch}-{val_acc:.3f}",
                monitor="val_acc",
                mode="max",
            )
        ],
    )

    trainer.fit(model, dm)
    print("RESULT", trainer.current_epoch, trainer.global_step, sorted(path.name for path in Path("ckpt").iterdir()))
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
    print("RESULT", [sorted((name, value.item()) for name, value in row.items()) for row in model.history])
    for stage in ("train", "val"):
        (file,) = Path("logs").rglob(f"{stage}/events*")
        events = EventAccumulator(str(file)).Reload()
        for name in sorted(events.Tags()["scalars"]):
            found = [(each.step, each.value) for each in events.Scalars(name)]
            print("RESULT", stage, name, [step for step, _ in found] if "time" in name else found)
    print("RESULT", trainer.test(model, dm, ckpt_path="best"))
