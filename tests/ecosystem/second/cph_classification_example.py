"""Its command line with the README's configuration: fit, best checkpoint, test; mixed precision off on a CPU."""

# requires: cph-classification==0.2.1 onnxscript
# domain: tabular

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from cph_classification.classification.mainfittest import CLSLightningCLI

README = """
seed_everything: true

trainer:
  callbacks:
    - class_path: lightning.pytorch.callbacks.ModelCheckpoint
      init_args:
        filename: "{epoch}-{val_loss:.2f}.best"
        monitor: "val_loss"
        mode: "min"
        save_top_k: 1
  logger:
    class_path: lightning.pytorch.loggers.TensorBoardLogger
    init_args:
      save_dir: "lightning_logs"
      name: "MyProjectTraining"

  max_epochs: 4
  accelerator: auto
  devices: auto

model:
  class_path: cph_classification.classification.modelmodule.ModelModuleCLS
  init_args:
    lr: 0.0001
    model:
      class_path: cph_classification.classification.modelfactory.ClassificationModel
      init_args:
        input_dim: 0  # Auto-set from datamodule
        num_classes: 0  # Auto-set from datamodule
        hidden_layers: [128, 64, 32]
        dropout_rates: [0.15, 0.1, 0.05]
        activation: "relu"

optimizer:
  class_path: torch.optim.Adam
  init_args:
    lr: 0.001
    weight_decay: 0.00001

data:
  class_path: cph_classification.classification.datamodule.DataModuleCLS
  init_args:
    csv_path: "data/myproject.csv"
    batch_size: 256
    num_workers: 0
    val_split: 0.2
    random_seed: 42
    categorical_cols:
      - feature1
    numeric_cols:
      - feature2
    target_col: "target"  # Can be integers or categorical strings
    save_preprocessor: true
    preprocessor_path: "models/preprocessor.joblib"

fit:
  ckpt_path: null   # Set to checkpoint path for resume training

test:
  ckpt_path: best   # Use "best" or "last" checkpoint
"""

if __name__ == "__main__":
    draws = np.random.default_rng(0)
    Path("data").mkdir()
    Path("models").mkdir()
    Path("my.yaml").write_text(README, "utf-8")
    numbers = draws.normal(size=1000)
    words = draws.choice(["red", "green", "blue"], 1000)
    target = (numbers + (words == "red") > 0.5).astype(int)
    pd.DataFrame({"feature1": words, "feature2": numbers, "target": target}).to_csv("data/myproject.csv", index=False)
    print("START")
    sys.argv[1:] = ["--config", "my.yaml"]
    cli = CLSLightningCLI(run=False)
    cli.trainer.fit(model=cli.model, datamodule=cli.datamodule, ckpt_path=cli.config.fit.ckpt_path)
    for name, value in sorted(cli.trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    print("RESULT", Path(cli.trainer.checkpoint_callback.best_model_path).name)
    (tested,) = cli.trainer.test(datamodule=cli.datamodule, ckpt_path=cli.config.test.ckpt_path)
    print("RESULT", sorted(tested.items()))
    print("RESULT", sum(p.double().sum().item() for p in cli.model.parameters()))
