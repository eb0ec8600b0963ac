"""A user's script as type checkers see it (`nox -s types`): no errors but where a line says so, in pyright and mypy.

`# expect error` stands where both must find one. This is read by them, and not run.
"""

from typing import Any, assert_type

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt
from lt.callbacks import EarlyStopping, ModelCheckpoint

Batch = tuple[Tensor, Tensor]


class Net(lt.LightningModule[Batch]):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(4, width)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.layer(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Batch) -> None:
        self.log("val_loss", batch[0].mean())
        self.log("val_loss", batch[0].mean(), prog_baar=True)  # expect error

    def count_tokens(self, batch: Tensor) -> int:  # expect error
        return batch.numel()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        assert_type(batch[0], Tensor)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Manual(lt.LightningModule):
    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(batch.mean())
        optimizer.step()
        optimizer.step(3)  # expect error

    def several(self) -> None:
        first, second = self.optimizers()
        first.step()
        second.step()
        self.optimizers() + 3  # expect error


loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 8)), batch_size=4)
trainer = lt.Trainer(
    max_epochs=3,
    accelerator="cpu",
    strategy="ddp",
    precision="bf16-mixed",
    logger=["csv", "wandb"],
    callbacks=[EarlyStopping("val_loss"), ModelCheckpoint(monitor="val_loss")],
)
lt.Trainer(strategy="a_strategy_of_a_stranger", precision="a_format_of_a_stranger")
lt.Trainer(max_epoch=3)  # expect error
lt.Trainer(patience=3)  # expect error
lt.Trainer(max_epochs="3")  # expect error
lt.Trainer(3)  # expect error
config: dict[str, Any] = {"max_epochs": 3}
lt.Trainer(accelerator="cpu", **config)

result = trainer.fit(Net(), loader)
assert_type(result.best_checkpoint, str | None)
print(result.history_)  # expect error
trainer.fit(Net(), loader, epochs=3)  # expect error
trainer.fit(nn.Linear(1, 1), loader)  # expect error
trainer.validat(Net())  # expect error
trainer.validate(Net(), loader, verbos=False)  # expect error
assert_type(trainer.predict(Net(), loader), list[Any])
trainer.predict(Net(), loader).keys()  # expect error
assert_type(trainer.checkpoint_callback.best_model_path, str)
print(trainer.checkpoint_callback.best_path)  # expect error
print(trainer.early_stopping_callback.stopped_epochs)  # expect error
assert_type(trainer.early_stopping_callback.stopped_epoch, int)
assert_type(Net.load_from_checkpoint("last.ckpt"), Net)
lt.callbacks.EarlyStoping("val_loss")  # expect error
ModelCheckpoint(monitr="val_loss")  # expect error


class Mine(lt.Trainer):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
