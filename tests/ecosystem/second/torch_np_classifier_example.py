"""The README's low-level training of a network on fingerprints: early stopping, best checkpoint, predict."""

# requires: torch-np-classifier==0.0.2
# domain: chemistry

import lightning
import numpy as np
import pandas as pd
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch_np_classifier import NPClassifierDataModule, NPClassifierLightning

SMILES = ["Cn1cnc2c1c(=O)n(c(=O)n2C)C", "O=c1c(O)c(-c2ccc(O)c(O)c2)oc2cc(O)cc(O)c12", "CCO", "c1ccccc1", "CC(=O)O"]

if __name__ == "__main__":
    lightning.seed_everything(0)
    draws = np.random.default_rng(0)
    for name, rows in (("train.csv", 40), ("val.csv", 15)):
        table = pd.DataFrame({"key": range(rows), "SMILES": [SMILES[row % 5] for row in range(rows)]})
        for label in range(7):
            table[f"label{label}"] = draws.integers(0, 2, rows)
        table.to_csv(name, index=False)
    print("START")
    dm = NPClassifierDataModule(
        train_csv="train.csv",
        val_csv="val.csv",
        smiles_col="SMILES",
        label_slice=slice(2, None),
        batch_size=8,
        num_workers=0,
    )
    model = NPClassifierLightning(num_categories=7, lr=1e-5, scheduler=True)
    trainer = lightning.Trainer(
        max_epochs=3,
        callbacks=[
            EarlyStopping(monitor="val_loss", patience=5),
            ModelCheckpoint(dirpath="checkpoints/", monitor="val_loss", save_top_k=1),
        ],
        accelerator="auto",
    )
    trainer.fit(model, datamodule=dm)
    for name, value in sorted(trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    print("RESULT", trainer.checkpoint_callback.best_model_path.rsplit("/", 1)[-1])
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
