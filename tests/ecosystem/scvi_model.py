"""SCVI of scvi-tools: training with validation, early stopping and its SaveCheckpoint (folders), save, load."""

# requires: scvi-tools==1.4.2
# domain: biology

from pathlib import Path

import scvi
from scvi.train import SaveCheckpoint

if __name__ == "__main__":
    print("START")
    scvi.settings.seed = 0
    cells = scvi.data.synthetic_iid()
    scvi.model.SCVI.setup_anndata(cells, batch_key="batch")
    model = scvi.model.SCVI(cells, n_latent=4)
    model.train(
        max_epochs=4, check_val_every_n_epoch=1, early_stopping=True, accelerator="cpu", enable_progress_bar=False
    )
    for name in ("elbo_train", "elbo_validation", "reconstruction_loss_train"):
        print("RESULT", name, float(model.history[name].iloc[-1].iloc[0]))
    model.save("saved", overwrite=True)
    print("RESULT", float(scvi.model.SCVI.load("saved", adata=cells).get_elbo()))
    for count in (1, 2):
        keeps = SaveCheckpoint(f"kept{count}", "{epoch}", "elbo_validation", load_best_on_end=True, save_top_k=count)
        model.train(
            max_epochs=4, check_val_every_n_epoch=1, accelerator="cpu", enable_progress_bar=False, callbacks=[keeps]
        )
        print("RESULT", sorted(path.name for path in Path(f"kept{count}").iterdir()))
        print("RESULT", Path(keeps.best_model_path).name, float(keeps.best_model_score), float(model.get_elbo()))
