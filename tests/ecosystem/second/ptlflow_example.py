"""RAFT's small network by its command line, data module and Trainer, on its dummy data; resumed"""

# requires: ptlflow==0.4.2
# domain: vision
# fails: its Trainer is a copy of the inside of Lightning's (`_run`, the checkpoint connector)

import csv
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from ptlflow import get_model
from ptlflow.data.flow_datamodule import FlowDataModule
from ptlflow.utils.callbacks.logger import LoggerCallback
from ptlflow.utils.dummy_datasets import write_sintel
from ptlflow.utils.lightning.ptlflow_cli import PTLFlowCLI
from ptlflow.utils.lightning.ptlflow_trainer import PTLFlowTrainer
from ptlflow.utils.registry import RegisteredModel


def train(epochs, ckpt_path=None):
    callbacks = [
        LoggerCallback(num_images=1),
        LearningRateMonitor(logging_interval="step"),
        ModelCheckpoint(dirpath="ckpts", save_top_k=-1, monitor="main_val_metric", filename="raft_{epoch}"),
    ]
    cli = PTLFlowCLI(
        model_class=RegisteredModel,
        subclass_mode_model=True,
        datamodule_class=FlowDataModule,
        trainer_class=PTLFlowTrainer,
        trainer_defaults={"callbacks": callbacks},
        auto_configure_optimizers=False,
        run=False,
        seed_everything_default=1234,
        args=[
            "--model=raft_small",
            "--model.iters=2",
            "--model.lr=1e-4",
            "--data.train_dataset=4*sintel-clean",
            "--data.val_dataset=sintel-clean",
            "--data.train_batch_size=2",
            "--data.train_num_workers=0",
            "--data.train_crop_size=[128,128]",
            "--trainer.accelerator=cpu",
            "--trainer.logger=CSVLogger",
            "--trainer.logger.save_dir=.",
            "--trainer.log_every_n_steps=1",
            "--trainer.gradient_clip_val=1.0",
            f"--trainer.max_epochs={epochs}",
        ],
    )
    cli.trainer.fit(model=cli.model, datamodule=cli.datamodule, ckpt_path=ckpt_path)
    best = Path(cli.trainer.checkpoint_callback.best_model_path).name
    print("RESULT", cli.trainer.current_epoch, cli.trainer.global_step, best)
    print("RESULT", sum(p.double().sum().item() for p in cli.model.parameters()))
    print("RESULT", sorted((name, value.item()) for name, value in cli.trainer.callback_metrics.items()))


if __name__ == "__main__":
    np.random.seed(0)
    print("START")
    write_sintel("data", img_size=(160, 192))
    Path("datasets.yaml").write_text("mpi_sintel: data/MPI-Sintel\n", "utf-8")
    train(2)
    train(2, "ckpts/raft_epoch=0.ckpt")
    with min(Path().rglob("metrics.csv")).open(encoding="utf-8") as file:
        print("RESULT", [sorted((name, value) for name, value in row.items() if value) for row in csv.DictReader(file)])
    model = get_model("raft_small", "ckpts/raft_epoch=1.ckpt").eval()
    with torch.no_grad():
        print("RESULT", model({"images": torch.full((1, 2, 3, 128, 128), 0.5)})["flows"].double().sum().item())
