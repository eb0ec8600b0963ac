"""Projects whose training is killed: what a run reads, sees and leaves is written down in its folder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

from lt_averaging import EMAWeightAveraging
from lt_callbacks import EarlyStopping, ModelCheckpoint
from lt_core import Callback, LightningModule, seed_everything
from lt_data import LightningDataModule
from lt_loops import Trainer

SAMPLES = 90


class Samples(Dataset[Any]):
    """Random inputs with their number, changed at random whenever they are read."""

    def __init__(self, *, augmented: bool) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(SAMPLES, 6, generator=generator)
        self.y = torch.randint(0, 3, (SAMPLES,), generator=generator)
        self.augmented = augmented

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        noise = torch.randn(6) * 0.1 if self.augmented else 0.0
        return self.x[index] + noise, self.y[index], index


class Data(LightningDataModule):
    def __init__(self, *, workers: int = 0, augmented: bool = False) -> None:
        super().__init__()
        self.workers, self.samples = workers, Samples(augmented=augmented)

    def train_dataloader(self) -> Any:
        return DataLoader(self.samples, batch_size=8, shuffle=True, num_workers=self.workers)

    def val_dataloader(self) -> Any:
        return DataLoader(Samples(augmented=False), batch_size=32)


class Net(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 3))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = {"scheduler": StepLR(optimizer, 4, 0.9), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


class Diary(Callback):
    """Each rank writes down its batches and losses, those done again after a kill too; rank 0 how the run ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        line = [trainer.current_epoch, batch_idx, batch[2].tolist(), outputs["loss"].item()]
        with (self.folder / f"diary_{trainer.global_rank}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        optimizer = trainer.optimizers[0].state_dict()
        end = {"weights": pl_module.state_dict(), "optimizer": optimizer, "step": trainer.global_step}
        if trainer.is_global_zero:
            torch.save(end, self.folder / "end.pt")


SCENARIOS: dict[str, dict[str, Any]] = {
    "dropout, shuffle, scheduler, accumulation": {"accumulate_grad_batches": 2, "val_check_interval": 5},
    "two workers, augmentation": {"workers": 2, "augmented": True},
    "EMA, early stopping, best-k": {"ema": True, "stops": True, "accumulate_grad_batches": 1},
    "two ranks": {"strategy": "ddp_fork", "devices": 2, "accumulate_grad_batches": 2, "val_check_interval": 3},
}


def train(folder: Path, name: str) -> None:
    """Train scenario ``name`` to its end, from the newest checkpoint in ``folder`` if there is one."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    options = dict(SCENARIOS[name])
    data = Data(workers=options.pop("workers", 0), augmented=options.pop("augmented", False))
    callbacks: list[Any] = [
        Diary(folder),
        ModelCheckpoint(dirpath=folder / "steps", every_n_train_steps=2, save_top_k=1, save_last="link"),
        ModelCheckpoint(dirpath=folder / "best", monitor="val_loss", save_top_k=2, save_last=True),
    ]
    callbacks += [EarlyStopping("val_loss", patience=2)] if options.pop("stops", False) else []
    callbacks += [EMAWeightAveraging(decay=0.9)] if options.pop("ema", False) else []
    seed_everything(3, verbose=False)
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=3,
        logger="csv",
        log_every_n_steps=3,
        default_root_dir=folder,
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(Net(), datamodule=data, ckpt_path="auto")


def left_behind(folder: Path) -> dict[str, Any]:
    """Return what a finished run left: batches and losses, rows, kept files, weights and optimizer.

    The rows are those of the newest version: one that was killed before its first checkpoint stays as it was.
    """
    diary: dict[str, Any] = {}
    for path in sorted(folder.glob("diary_*.jsonl")):
        for line in path.read_text().splitlines():
            epoch, batch, samples, loss = json.loads(line)
            done = diary.setdefault(f"{path.stem}/{epoch}/{batch}", (samples, loss))
            assert done == (samples, loss), f"{path}: epoch {epoch}, batch {batch} went otherwise the second time"
    rows = max(folder.glob("lightning_logs/version_?/metrics.csv")).read_text()
    kept = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*.ckpt"))
    return {"diary": diary, "rows": rows, "kept": kept, "end": torch.load(folder / "end.pt", weights_only=True)}
