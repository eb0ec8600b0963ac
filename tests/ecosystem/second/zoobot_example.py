"""The README's quick start on made pictures, the encoder untrained: fine-tuning for rings, best file, predictions"""

# requires: zoobot[pytorch]==2.9.0
# domain: astronomy

from pathlib import Path

import lightning as L
import numpy as np
import pandas as pd
import timm
import torch
from galaxy_datasets.pytorch.galaxy_datamodule import CatalogDataModule
from lightning.pytorch.loggers import CSVLogger
from PIL import Image
from torchvision.transforms.v2 import Compose, RandomHorizontalFlip, Resize, ToDtype, ToImage
from zoobot.pytorch.predictions import predict_on_catalog
from zoobot.pytorch.training import finetune


def draw_galaxies(count):
    draws, rows = np.random.default_rng(0), []
    far = np.hypot(*np.mgrid[-1:1:48j, -1:1:48j])
    Path("pictures").mkdir()
    for number in range(count):
        ring = number % 2
        light = np.exp(-8 * far) + ring * np.exp(-80 * (far - draws.uniform(0.5, 0.7)) ** 2)
        picture = 180 * light[..., None] * draws.uniform(0.6, 1, 3) + draws.uniform(0, 40, (48, 48, 3))
        place = f"pictures/{number}.png"
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(place)
        rows.append({"id_str": f"galaxy{number}", "file_loc": place, "ring": ring})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    L.seed_everything(0)
    galaxies = draw_galaxies(60)
    labelled_df, unlabelled_df = galaxies[:48], galaxies[48:].reset_index()
    print("START")
    size = [ToImage(), Resize((32, 32)), ToDtype(torch.float32, scale=True)]
    small = Compose(size)
    datamodule = CatalogDataModule(
        label_cols=["ring"],
        catalog=labelled_df,
        batch_size=8,
        num_workers=0,
        train_transform=Compose([RandomHorizontalFlip(), *size]),
        test_transform=small,
    )

    # in place of the trained Zoobot model
    encoder = timm.create_model("convnext_atto", num_classes=0)
    model = finetune.FinetuneableZoobotClassifier(encoder=encoder, num_classes=2, label_col="ring", learning_rate=1e-3)

    # retrain to find rings
    logger = CSVLogger("logs")
    trainer = finetune.get_trainer("results", max_epochs=3, accelerator="cpu", logger=logger, log_every_n_steps=1)
    trainer.fit(model, datamodule)
    print("RESULT", trainer.current_epoch, trainer.global_step)
    for name, value in sorted(trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    rows = pd.read_csv(Path(logger.log_dir, "metrics.csv"))
    for name in sorted(rows.columns):
        print("RESULT", name, rows[name].dropna().tolist())
    (best,) = Path("results/checkpoints").iterdir()
    saved = torch.load(best, weights_only=False)
    print("RESULT", best.name, sum(value.double().sum().item() for value in saved["state_dict"].values()))

    predictions = predict_on_catalog.predict(
        unlabelled_df,
        model,
        label_cols=["not_ring", "ring"],
        save_loc="finetuned_predictions.csv",
        inference_transform=small,
        datamodule_kwargs={"batch_size": 4, "num_workers": 0},
        trainer_kwargs={"accelerator": "cpu", "logger": False},
    )
    print("RESULT", len(predictions), predictions["ring"].sum().item(), trainer.test(model, datamodule))
