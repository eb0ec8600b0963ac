"""`clarena` with the example of its documentation: finetuning through permuted MNIST, three tasks, metrics as files"""

# requires: clarena==1.1.0
# domain: continual learning

import csv
import struct
import sys
from pathlib import Path

import numpy as np
import torch

CONFIG = """
pipeline: CL_MAIN_EXPR
expr_name: example
cl_paradigm: TIL
train_tasks: 3
eval_after_tasks: 3
global_seed: 1
output_dir: outputs
cl_dataset:
  _target_: clarena.cl_datasets.PermutedMNIST
  root: data/MNIST
  num_tasks: 3
  validation_percentage: 0.1
  batch_size: 16
  permutation_mode: first_channel_only
cl_algorithm:
  _target_: clarena.cl_algorithms.Finetuning
backbone:
  _target_: clarena.backbones.CLMLP
  input_dim: 784
  hidden_dims: [32, 16]
  output_dim: 16
  activation_layer:
    _target_: hydra.utils.get_class
    path: torch.nn.ReLU
optimizer:
  _target_: torch.optim.Adam
  _partial_: true
  lr: 0.01
  weight_decay: 0.0
lr_scheduler:
  _target_: torch.optim.lr_scheduler.ReduceLROnPlateau
  _partial_: true
  mode: min
  factor: 0.1
  patience: 0
trainer:
  _target_: lightning.Trainer
  default_root_dir: ${output_dir}
  log_every_n_steps: 5
  accelerator: cpu
  devices: 1
  max_epochs: 3
metrics:
  - _target_: clarena.metrics.CLAccuracy
    save_dir: ${output_dir}/results/
    test_acc_csv_name: acc.csv
  - _target_: clarena.metrics.CLLoss
    save_dir: ${output_dir}/results/
    test_loss_cls_csv_name: loss_cls.csv
lightning_loggers:
  csv:
    _target_: lightning.pytorch.loggers.CSVLogger
    save_dir: ${output_dir}
    name: lightning_logs
callbacks:
  - _target_: clarena.callbacks.CLPylogger
  - _target_: clarena.callbacks.CLRichProgressBar
  - _target_: clarena.callbacks.SaveModels
    save_dir: ${output_dir}/saved_models/
  - _target_: clarena.callbacks.SaveFirstBatchImages
    save_dir: ${output_dir}/samples/
misc:
  timestamp: now
hydra:
  run:
    dir: ${output_dir}
"""


def write(path, magic, array):
    path.write_bytes(struct.pack(f">i{array.ndim}i", magic, *array.shape) + array.tobytes())


if __name__ == "__main__":
    draws = np.random.default_rng(0)
    Path("example_configs").mkdir()
    Path("example_configs/entrance.yaml").write_text(CONFIG, "utf-8")
    raw = Path("data/MNIST/MNIST/raw")
    raw.mkdir(parents=True)
    digits = draws.integers(0, 200, (10, 28, 28))
    for stage, count in (("train", 200), ("t10k", 50)):  # in place of the download
        labels = draws.integers(0, 10, count)
        images = digits[labels] + draws.integers(0, 56, (count, 28, 28))
        write(raw / f"{stage}-images-idx3-ubyte", 0x803, images.astype(np.uint8))
        write(raw / f"{stage}-labels-idx1-ubyte", 0x801, labels.astype(np.uint8))
    print("START")
    from clarena.cli import clarena  # reads the configuration's folder

    sys.argv[1:] = []
    clarena()
    for name in ("acc", "loss_cls"):
        (told,) = Path("outputs").rglob(f"{name}.csv")
        with told.open(encoding="utf-8") as file:
            print("RESULT", name, [sorted(row.items()) for row in csv.DictReader(file)])
    with next(Path("outputs/lightning_logs").rglob("metrics.csv")).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            print("RESULT", sorted((name, value) for name, value in row.items() if value))
    for path in sorted(Path("outputs").rglob("*.pth")):
        saved = torch.load(path, weights_only=False)
        print("RESULT", path.name, sum(p.double().sum().item() for p in saved.parameters()))
    print("RESULT", sorted(path.name for path in Path("outputs").rglob("*.ckpt")))
