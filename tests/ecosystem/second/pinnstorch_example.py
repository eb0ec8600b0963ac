"""The tutorial's Schrödinger equation, its data made here: initial and periodic conditions, collocation points, test"""

# requires: pinnstorch==0.1.2 requests pyDOE<0.4
# domain: physics

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pinnstorch
import torch
from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger


def read_data_fn(root_path):
    x, t = np.linspace(-5, 5, 32)[:, None], np.linspace(0, 1.57, 21)[None, :]
    exact = 2 / np.cosh(x) * np.exp(1j * t)
    return {"u": np.real(exact), "v": np.imag(exact), "h": np.abs(exact)}


def initial_fun(x):
    return {"u": 2 / np.cosh(x), "v": np.zeros_like(x)}


def output_fn(outputs, x, t):
    outputs["h"] = torch.sqrt(outputs["u"] ** 2 + outputs["v"] ** 2)
    return outputs


def pde_fn(outputs, x, t):
    u_x, u_t = pinnstorch.utils.gradient(outputs["u"], [x, t])
    v_x, v_t = pinnstorch.utils.gradient(outputs["v"], [x, t])
    u_xx = pinnstorch.utils.gradient(u_x, x)[0]
    v_xx = pinnstorch.utils.gradient(v_x, x)[0]
    outputs["f_u"] = u_t + 0.5 * v_xx + outputs["v"] * (outputs["u"] ** 2 + outputs["v"] ** 2)
    outputs["f_v"] = v_t - 0.5 * u_xx - outputs["u"] * (outputs["u"] ** 2 + outputs["v"] ** 2)
    return outputs


if __name__ == "__main__":
    print("START")
    seed_everything(1234)
    mesh = pinnstorch.data.Mesh(
        root_dir="./data",
        read_data_fn=read_data_fn,
        spatial_domain=pinnstorch.data.Interval(x_interval=[-5, 5], shape=[32, 1]),
        time_domain=pinnstorch.data.TimeDomain(t_interval=[0, 1.57], t_points=21),
    )
    data = pinnstorch.data.PINNDataModule(
        train_datasets=[
            pinnstorch.data.InitialCondition(mesh=mesh, num_sample=16, initial_fun=initial_fun, solution=["u", "v"]),
            pinnstorch.data.PeriodicBoundaryCondition(
                mesh=mesh, num_sample=16, derivative_order=1, solution=["u", "v"]
            ),
            pinnstorch.data.MeshSampler(mesh=mesh, num_sample=200, collection_points=["f_u", "f_v"]),
        ],
        val_dataset=pinnstorch.data.MeshSampler(mesh=mesh, solution=["u", "v", "h"]),
        batch_size=None,
    )
    net = pinnstorch.models.FCN(layers=[2, 20, 20, 2], output_names=["u", "v"], lb=mesh.lb, ub=mesh.ub)
    model = pinnstorch.models.PINNModule(
        net=net,
        pde_fn=pde_fn,
        output_fn=output_fn,
        optimizer=partial(torch.optim.Adam, lr=1e-3),
        loss_fn="mse",
        jit_compile=False,
        amp=False,
    )
    checkpoint = ModelCheckpoint(monitor="val/loss", filename="{epoch}")
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=20,
        check_val_every_n_epoch=5,
        log_every_n_steps=1,
        callbacks=[checkpoint],
        logger=CSVLogger("."),
    )
    trainer.fit(model=model, datamodule=data)
    with next(Path().rglob("metrics.csv")).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            print("RESULT", sorted((name, value) for name, value in row.items() if value))
    print("RESULT", Path(checkpoint.best_model_path).name, len(model.times))
    for name, value in sorted(trainer.validate(model=model, datamodule=data)[0].items()):
        print("RESULT", name, value)
    predicted = pinnstorch.utils.fix_predictions(trainer.predict(model=model, datamodule=data))
    print("RESULT", sorted((name, value.shape, float(value.sum())) for name, value in predicted.items()))
