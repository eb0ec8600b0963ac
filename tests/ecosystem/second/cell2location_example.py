"""The two steps of its tutorial on synthetic cells: signatures of cell types, then their place in spots."""

# requires: cell2location==0.1.5 pyro-ppl==1.8.6
# domain: biology
# compat: --pickle

import anndata
import numpy as np
import pandas as pd
import scvi
import torch
from cell2location.models import Cell2location, RegressionModel

if __name__ == "__main__":
    scvi.settings.seed = 0
    draws = np.random.default_rng(0)
    rates = draws.gamma(1.0, 3.0, (3, 20))
    kinds = np.repeat([0, 1, 2], 20)
    genes = pd.DataFrame(index=[f"gene{number}" for number in range(20)])
    cells = anndata.AnnData(
        draws.poisson(rates[kinds]).astype("float32"),
        obs=pd.DataFrame(
            {"sample": np.where(np.arange(60) % 2, "a", "b"), "kind": [f"kind{kind}" for kind in kinds]},
            index=[f"cell{number}" for number in range(60)],
        ),
        var=genes.copy(),
    )
    spots = anndata.AnnData(
        draws.poisson(draws.dirichlet(np.ones(3), 16) @ rates * 5).astype("float32"),
        obs=pd.DataFrame({"sample": "s"}, index=[f"spot{number}" for number in range(16)]),
        var=genes.copy(),
    )
    print("START")
    RegressionModel.setup_anndata(adata=cells, batch_key="sample", labels_key="kind")
    reference = RegressionModel(cells)
    reference.train(max_epochs=6, batch_size=20, train_size=1, lr=0.002, accelerator="cpu")
    print("RESULT", reference.history["elbo_train"].iloc[:, 0].astype(float).tolist())
    cells = reference.export_posterior(cells, sample_kwargs={"num_samples": 10, "batch_size": 20, "accelerator": "cpu"})
    names = [f"means_per_cluster_mu_fg_{name}" for name in cells.uns["mod"]["factor_names"]]
    signatures = cells.varm["means_per_cluster_mu_fg"][names].copy()
    signatures.columns = cells.uns["mod"]["factor_names"]
    print("RESULT", signatures.to_numpy().sum(0).tolist())
    reference.save("reference", overwrite=True)
    Cell2location.setup_anndata(adata=spots, batch_key="sample")
    model = Cell2location(spots, cell_state_df=signatures, N_cells_per_location=5, detection_alpha=20)
    model.train(max_epochs=12, batch_size=None, train_size=1, accelerator="cpu")
    print("RESULT", model.history["elbo_train"].iloc[:, 0].astype(float).tolist())
    spots = model.export_posterior(spots, sample_kwargs={"num_samples": 10, "batch_size": 16, "accelerator": "cpu"})
    print("RESULT", spots.obsm["q05_cell_abundance_w_sf"].to_numpy().sum(0).tolist())
    model.save("model", overwrite=True)
    loaded = torch.load("model/model.pt", weights_only=False)["model_state_dict"]
    print("RESULT", sum(value.double().sum().item() for value in loaded.values() if torch.is_tensor(value)))
