"""The README's model trained as by its run script: a GAN optimized by hand, the best file, a folder for the hub"""

# requires: dgmr==1.4.4
# domain: forecasting

import csv
from pathlib import Path

import torch
from dgmr import DGMR
from pytorch_lightning import LightningDataModule, Trainer, seed_everything
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class DGMRDataModule(LightningDataModule):
    def __init__(self, batch_size=1):
        super().__init__()
        self.batch_size = batch_size

    def frames(self, count, seed):
        drawn = torch.rand(count, 6, 1, 128, 128, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(drawn[:, :4], drawn[:, 4:])

    def train_dataloader(self):
        return DataLoader(self.frames(1, 0), batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.frames(1, 1), batch_size=self.batch_size)


if __name__ == "__main__":
    print("START")
    seed_everything(0)
    checkpoint = ModelCheckpoint(monitor="train/g_loss", dirpath="./", filename="best")
    trainer = Trainer(max_epochs=2, logger=CSVLogger("."), callbacks=[checkpoint], log_every_n_steps=1, precision=32)
    model = DGMR(
        forecast_steps=2,
        input_channels=1,
        output_shape=128,
        latent_channels=384,
        context_channels=192,
        num_samples=2,
        generation_steps=1,
    )
    trainer.fit(model, datamodule=DGMRDataModule())
    with next(Path().rglob("metrics.csv")).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            print("RESULT", sorted((name, value) for name, value in row.items() if value))
    print("RESULT", trainer.global_step, Path(checkpoint.best_model_path).name, checkpoint.best_model_score.item())
    seed_everything(0)
    loaded = DGMR.load_from_checkpoint(checkpoint.best_model_path).eval()
    loaded.save_pretrained("hub")
    print("RESULT", sorted(path.name for path in Path("hub").iterdir()))
    print("RESULT", DGMR.from_pretrained("hub").eval()(torch.ones(1, 4, 1, 128, 128)).double().sum().item())
