"""SchNet energies of made-up molecules: its data module with statistics, task with metrics, best model, test."""

# requires: schnetpack==2.0.4
# domain: chemistry
# compat: --pickle

import numpy as np
import pytorch_lightning as pl
import schnetpack as spk
import schnetpack.transform as trn
import torch
import torchmetrics
from ase import Atoms
from schnetpack.data import ASEAtomsData, AtomsDataModule

if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    draw = np.random.RandomState(0)
    shape = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0]])
    molecules = [Atoms("OH2", positions=shape + 0.1 * draw.randn(3, 3)) for _ in range(40)]
    energies = [{"energy": np.array([float(np.linalg.norm(m.positions[1] - m.positions[2]))])} for m in molecules]
    created = ASEAtomsData.create("water.db", distance_unit="Ang", property_unit_dict={"energy": "eV"})
    created.add_systems(property_list=energies, atoms_list=molecules)
    data = AtomsDataModule(
        "water.db",
        batch_size=5,
        num_train=24,
        num_val=8,
        num_test=8,
        split_file="split.npz",
        transforms=[trn.ASENeighborList(cutoff=4.0), trn.RemoveOffsets("energy", remove_mean=True), trn.CastTo32()],
        num_workers=0,
        pin_memory=False,
    )
    schnet = spk.representation.SchNet(
        n_atom_basis=8, n_interactions=2, radial_basis=spk.nn.GaussianRBF(8, 4.0), cutoff_fn=spk.nn.CosineCutoff(4.0)
    )
    network = spk.model.NeuralNetworkPotential(
        representation=schnet,
        input_modules=[spk.atomistic.PairwiseDistances()],
        output_modules=[spk.atomistic.Atomwise(n_in=8, output_key="energy")],
        postprocessors=[trn.CastTo64(), trn.AddOffsets("energy", add_mean=True)],
    )
    output = spk.task.ModelOutput("energy", torch.nn.MSELoss(), 1.0, {"MAE": torchmetrics.MeanAbsoluteError()})
    task = spk.task.AtomisticTask(network, [output], torch.optim.AdamW, {"lr": 1e-2}, warmup_steps=3)
    best = spk.train.ModelCheckpoint(model_path="best_model", monitor="val_loss", save_top_k=1, save_last=True)
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", callbacks=[best], enable_progress_bar=False)
    trainer.fit(task, datamodule=data)
    print("RESULT", best.best_model_path.split("/")[-1], float(best.best_model_score))
    print("RESULT", trainer.test(task, datamodule=data))
    print("RESULT", float(sum(p.sum() for p in torch.load("best_model", weights_only=False).parameters())))
