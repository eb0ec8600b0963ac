"""Source separation by a small ConvTasNet: its System, a plateau scheduler, early stopping, best checkpoints."""

# requires: asteroid==0.7.0 setuptools<81 requests
# domain: audio

import pytorch_lightning as pl
import torch
from asteroid.engine import System
from asteroid.losses import PITLossWrapper, pairwise_neg_sisdr
from asteroid.models import ConvTasNet
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    clock = torch.arange(800) / 100
    sources = torch.stack([torch.stack([torch.sin(k * clock), torch.sin(3.7 * k * clock)]) for k in range(1, 25)])
    data = TensorDataset(sources.sum(1) + 0.01 * torch.randn(24, 800), sources)
    model = ConvTasNet(n_src=2, n_filters=16, n_blocks=2, n_repeats=1, bn_chan=8, hid_chan=16, skip_chan=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    loss = PITLossWrapper(pairwise_neg_sisdr, pit_from="pw_mtx")
    train, val = DataLoader(data, 6, shuffle=True), DataLoader(data, 6)
    system = System(model, optimizer, loss, train, val, scheduler, config={"lr": 1e-2})
    best = pl.callbacks.ModelCheckpoint("best", monitor="val_loss", mode="min", save_top_k=2)
    stop = pl.callbacks.EarlyStopping("val_loss", patience=3)
    trainer = pl.Trainer(max_epochs=4, accelerator="cpu", callbacks=[best, stop], enable_progress_bar=False)
    trainer.fit(system)
    print("RESULT", {path.split("/")[-1]: float(score) for path, score in best.best_k_models.items()})
    print("RESULT", optimizer.param_groups[0]["lr"], float(sum(p.sum() for p in model.parameters())))
