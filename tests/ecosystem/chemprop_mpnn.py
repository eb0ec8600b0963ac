"""A message passing network on 60 molecules: fit with validation, best checkpoint, test, predict."""

# requires: chemprop==2.3.1
# domain: chemistry
# compat: --pickle

import lightning.pytorch as pl
import numpy as np
import torch
from chemprop import data, models, nn

if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    smiles = [f"{'C' * (1 + n % 7)}{'O' * (n % 2)}{'N' * (n % 3)}" for n in range(60)]
    targets = np.array([[float(len(text)) + text.count("O")] for text in smiles])
    points = [data.MoleculeDatapoint.from_smi(text, y) for text, y in zip(smiles, targets, strict=True)]
    train, val = data.MoleculeDataset(points[:40]), data.MoleculeDataset(points[40:])
    scaler = train.normalize_targets()
    val.normalize_targets(scaler)
    unscaled = nn.UnscaleTransform.from_standard_scaler(scaler)
    network = models.MPNN(
        nn.BondMessagePassing(d_h=32, depth=2),
        nn.MeanAggregation(),
        nn.RegressionFFN(input_dim=32, hidden_dim=16, output_transform=unscaled),
    )
    loader = data.build_dataloader(train, batch_size=8, num_workers=0, seed=1)
    quietly = data.build_dataloader(val, batch_size=8, num_workers=0, shuffle=False)
    best = pl.callbacks.ModelCheckpoint("best", "best-{epoch}-{val_loss:.2f}", "val_loss", save_last=True)
    trainer = pl.Trainer(max_epochs=4, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[best])
    trainer.fit(network, loader, quietly)
    print("RESULT", best.best_model_path.split("/")[-1], float(best.best_model_score))
    print("RESULT", trainer.test(network, quietly, ckpt_path="best", weights_only=False))
    print("RESULT", torch.cat(trainer.predict(network, quietly))[:4].flatten().tolist())
