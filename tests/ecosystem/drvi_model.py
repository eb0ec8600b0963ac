"""DRVI (a model on scvi-tools' classes) on synthetic cells: train with early stopping, latent space, save, load."""

# requires: drvi-py==0.2.8
# domain: biology

import scvi
from drvi.model import DRVI

if __name__ == "__main__":
    print("START")
    scvi.settings.seed = 0
    cells = scvi.data.synthetic_iid()
    DRVI.setup_anndata(cells, categorical_covariate_keys=["batch"], is_count_data=True)
    model = DRVI(cells, n_latent=4, encoder_dims=[16], decoder_dims=[16], categorical_covariates=["batch"])
    options = {"early_stopping": True, "check_val_every_n_epoch": 1, "enable_progress_bar": False}
    model.train(max_epochs=3, accelerator="cpu", **options)
    for name in ("elbo_train", "elbo_validation"):
        print("RESULT", name, float(model.history[name].iloc[-1].iloc[0]))
    model.save("saved", overwrite=True)
    print("RESULT", float(DRVI.load("saved", adata=cells).get_latent_representation().sum()))
