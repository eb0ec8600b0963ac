"""A loss of described terms and factors, its training module and data by `lightning_toolbox.main`, fit and resumed"""

# requires: lightning-toolbox==0.0.35 tabulate
# domain: templates
# differs: `last.ckpt` holds the end of the run on lt, on Lightning the best epoch; a resume goes on from there

import csv
import sys
from pathlib import Path

import torch
from torch.utils.data import Dataset

CONFIG = """
seed_everything: 7
trainer:
  max_epochs: 4
  log_every_n_steps: 1
  gradient_clip_val: 1.0
  logger:
    class_path: lightning.pytorch.loggers.CSVLogger
    init_args: {save_dir: runs}
  callbacks:
    - class_path: lightning.pytorch.callbacks.LearningRateMonitor
    - class_path: lightning.pytorch.callbacks.ModelCheckpoint
      init_args: {monitor: loss/val, filename: best, save_last: true}
    - class_path: __main__.Largest
      init_args: {buffer_type: regular}
model:
  class_path: lightning_toolbox.TrainingModule
  init_args:
    model_cls: __main__.Regressor
    model_args: {width: 16}
    objective_args:
      mse: "lambda training_module, batch: ((training_module(batch[0]) - batch[1]) ** 2)"
      weights:
        term_function: "lambda training_module: sum((p ** 2).sum() for p in training_module.parameters())"
        factor: "lambda self, training_module: 0.01 / (training_module.current_epoch + 1)"
    optimizer: torch.optim.Adam
    lr: 0.01
    scheduler: torch.optim.lr_scheduler.StepLR
    scheduler_args: {step_size: 2, gamma: 0.5}
data:
  class_path: lightning_toolbox.DataModule
  init_args:
    dataset: __main__.Waves
    dataset_args: {count: 48}
    val_size: 0.25
    batch_size: 8
    train_shuffle: true
    pin_memory: false
"""


class Waves(Dataset):
    def __init__(self, count):
        self.x = torch.linspace(-3, 3, count)[:, None]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], torch.sin(self.x[index])


class Regressor(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))

    def forward(self, inputs):
        return self.layers(inputs)


if __name__ == "__main__":
    from lightning_toolbox.callbacks import objective_buffer
    from lightning_toolbox.main import main

    class Largest(objective_buffer.ObjectiveBufferCallback):
        def work_on_flush(self, loop, trainer, pl_module):
            buffer = getattr(self, f"{loop}_buffer")
            print("RESULT", loop, trainer.current_epoch, buffer.num_commits)

    Path("config.yaml").write_text(CONFIG, "utf-8")
    print("START")
    sys.argv[1:] = ["fit", "--config", "config.yaml"]
    main()
    with next(Path("runs").rglob("metrics.csv")).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            print("RESULT", sorted((name, value) for name, value in row.items() if value))
    print("RESULT", sorted(path.name for path in Path("runs").rglob("*.*") if path.is_file()))
    (last,) = Path("runs").rglob("last.ckpt")
    sys.argv[1:] = ["fit", "--config", "config.yaml", "--ckpt_path", str(last), "--trainer.max_epochs", "6"]
    main()
    with max(Path("runs").rglob("metrics.csv")).open(encoding="utf-8") as file:
        print("RESULT", sorted(list(csv.DictReader(file))[-1].items()))
