"""The README's example for Lightning on made pictures, nothing pretrained: triplets, retrieval metrics, predict"""

# requires: open-metric-learning==4.0.0 omegaconf lightning==2.6.1 pytorch-lightning==2.6.1
# domain: metric learning
# It imports `NeptuneLogger` from `pytorch_lightning.loggers`, which 2.6.4 and later have not.

from pathlib import Path

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from oml import datasets as d
from oml.lightning.callbacks.metric import MetricValCallback
from oml.lightning.modules.extractor import ExtractorModule
from oml.losses import TripletLossWithMiner
from oml.metrics import EmbeddingMetrics
from oml.miners import AllTripletsMiner
from oml.models import ViTExtractor
from oml.retrieval import RetrievalResults
from oml.samplers import BalanceSampler
from oml.transforms.images.torchvision import get_augs_torch, get_normalisation_resize_torch
from PIL import Image
from pytorch_lightning.loggers import CSVLogger
from torch.optim import Adam
from torch.utils.data import DataLoader


def get_pictures():
    """Stripes; their direction is the label."""
    draws, rows = np.random.default_rng(0), []
    Path("pictures").mkdir()
    down, right = np.mgrid[0:1:48j, 0:1:48j]
    for number in range(40):
        label = number % 4
        angle = np.pi * (label / 4 + draws.uniform(-0.05, 0.05))
        wave = np.sin(20 * (down * np.sin(angle) + right * np.cos(angle)) + draws.uniform(0, 6))
        picture = 128 + 80 * wave[..., None] * draws.uniform(0.5, 1, 3) + draws.normal(0, 12, (48, 48, 3))
        path = f"pictures/{number}.png"
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(path)
        rows.append({"path": path, "label": label, "is_query": True, "is_gallery": True})
    df = pd.DataFrame(rows)
    return df[:24].reset_index(drop=True), df[24:].reset_index(drop=True)


if __name__ == "__main__":
    pl.seed_everything(0)
    df_train, df_val = get_pictures()
    print("START")
    train = d.ImageLabeledDataset(df_train, transform=get_augs_torch(im_size=32))
    val = d.ImageQueryGalleryLabeledDataset(df_val, transform=get_normalisation_resize_torch(im_size=32))

    model = ViTExtractor(weights=None, arch="vits8", normalise_features=False)
    criterion = TripletLossWithMiner(0.1, AllTripletsMiner(), need_logs=True)
    optimizer = Adam(model.parameters(), lr=1e-4)
    sampler = BalanceSampler(train.get_labels(), n_labels=4, n_instances=3)
    train_loader = DataLoader(train, batch_sampler=sampler)
    val_loader = DataLoader(val, batch_size=4)

    clb = MetricValCallback(EmbeddingMetrics(val, cmc_top_k=(1,), map_top_k=(3,)))
    module = ExtractorModule(model, criterion, optimizer)
    logger = CSVLogger("logs")
    rest = {"accelerator": "cpu", "logger": logger, "log_every_n_steps": 1, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(max_epochs=3, callbacks=[clb], **rest)
    trainer.fit(module, train_loader, val_loader)

    print("RESULT", trainer.current_epoch, trainer.global_step)
    for name, value in sorted(trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    rows = pd.read_csv(Path(logger.log_dir, "metrics.csv"))
    for name in sorted(rows.columns):
        print("RESULT", name, rows[name].dropna().tolist())
    print("RESULT", sum(value.double().sum().item() for value in model.state_dict().values()))

    predictions = trainer.predict(module, val_loader)
    embeddings = torch.cat([prediction["embeddings"] for prediction in predictions])
    found = RetrievalResults.from_embeddings(embeddings, val, n_items=3)
    print("RESULT", embeddings.double().sum().item(), [ids.tolist() for ids in found.retrieved_ids])
