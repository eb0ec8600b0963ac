"""Its examples on iris: GLVQ with losers pruned and early stopping, saved and loaded; a growing neural gas"""

# requires: prototorch-models==0.7.1 setuptools<81
# domain: prototypes

import prototorch as pt
import pytorch_lightning as pl
import torch
from prototorch.models import GLVQ, GrowingNeuralGas, PruneLoserPrototypes, VisGLVQ2D, VisNG2D
from pytorch_lightning.callbacks import EarlyStopping
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader

if __name__ == "__main__":
    print("START")
    pl.seed_everything(4)
    train_ds = pt.datasets.Iris(dims=[0, 2])
    train_loader = DataLoader(train_ds, batch_size=64, shuffle=True)
    model = GLVQ(
        {"distribution": {"num_classes": 3, "per_class": 4}, "lr": 0.01},
        optimizer=torch.optim.Adam,
        prototypes_initializer=pt.initializers.SMCI(train_ds),
        lr_scheduler=ExponentialLR,
        lr_scheduler_kwargs={"gamma": 0.99},
    )
    model.example_input_array = torch.zeros(4, 2)
    pruning = PruneLoserPrototypes(threshold=0.04, idle_epochs=5, prune_quota_per_epoch=2, frequency=1, verbose=True)
    stopping = EarlyStopping(
        monitor="train_loss", min_delta=0.001, patience=10, mode="min", verbose=True, check_on_train_epoch_end=True
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=[VisGLVQ2D(data=train_ds, show=False), pruning, stopping],
        max_epochs=40,
        log_every_n_steps=1,
        detect_anomaly=True,
    )
    trainer.fit(model, train_loader)
    print("RESULT", trainer.current_epoch, trainer.global_step, model.num_prototypes, stopping.best_score.item())
    print("RESULT", sorted((name, value.item()) for name, value in trainer.callback_metrics.items()))
    print("RESULT", model.prototypes.double().sum().item(), model.hparams["distribution"])
    trainer.save_checkpoint("glvq_iris.ckpt")
    loaded = GLVQ.load_from_checkpoint("glvq_iris.ckpt", strict=False, weights_only=False)
    x, y = next(iter(DataLoader(train_ds, batch_size=len(train_ds))))
    print("RESULT", (loaded.predict(x) == y).double().mean().item(), loaded.num_prototypes)

    pl.seed_everything(42)
    gas = GrowingNeuralGas(
        {"num_prototypes": 5, "input_dim": 2, "lr": 0.1, "insert_freq": 4},
        prototypes_initializer=pt.initializers.ZCI(2),
    )
    gas.example_input_array = torch.zeros(4, 2)
    trainer = pl.Trainer(accelerator="cpu", callbacks=[VisNG2D(data=train_loader, show=False)], max_epochs=12)
    trainer.fit(gas, train_loader)
    print("RESULT", trainer.current_epoch, len(gas.prototypes), gas.prototypes.double().sum().item())
