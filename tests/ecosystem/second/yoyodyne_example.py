"""`yoyodyne fit`, `validate` and `predict` by a configuration: an attentive LSTM that reverses words."""

# requires: yoyodyne==0.5.27
# domain: language

import csv
import sys
from pathlib import Path

import numpy as np
from yoyodyne.cli.main import main

CONFIG = """
seed_everything: 49
trainer:
  max_epochs: 3
  logger:
  - class_path: lightning.pytorch.loggers.CSVLogger
    init_args:
      save_dir: models
checkpoint:
  filename: "model-{epoch:03d}-{val_accuracy:.4f}"
  monitor: val_accuracy
  mode: max
data:
  model_dir: models
  train: train.tsv
  val: val.tsv
  batch_size: 16
model:
  class_path: yoyodyne.models.SoftAttentionLSTMModel
  init_args:
    decoder_hidden_size: 16
    embedding_size: 8
    optimizer:
      class_path: torch.optim.Adam
      init_args:
        lr: 0.01
    scheduler:
      class_path: yoyodyne.schedulers.WarmupInverseSquareRoot
      init_args:
        warmup_epochs: 1
    source_encoder:
      class_path: yoyodyne.models.modules.LSTMEncoder
      init_args:
        embedding_size: 8
        hidden_size: ${model.init_args.decoder_hidden_size}
prediction:
  path: predictions.txt
"""

if __name__ == "__main__":
    draws = np.random.default_rng(0)
    for name, rows in (("train.tsv", 120), ("val.tsv", 20)):
        words = ["".join(draws.choice(list("abcd"), draws.integers(3, 6))) for _ in range(rows)]
        Path(name).write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), "utf-8")
    Path("config.yaml").write_text(CONFIG, "utf-8")
    print("START")
    sys.argv[1:] = ["fit", "--config", "config.yaml"]
    main()
    with next(Path("models").rglob("metrics.csv")).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            print("RESULT", sorted((name, value) for name, value in row.items() if value))
    (best,) = Path("models").rglob("*.ckpt")
    print("RESULT", best.name)
    sys.argv[1:] = ["validate", "--config", "config.yaml", "--ckpt_path", str(best)]
    main()
    options = ["--ckpt_path", str(best), "--data.predict", "val.tsv"]
    sys.argv[1:] = ["predict", "--config", "config.yaml", *options]
    main()
    print("RESULT", Path("predictions.txt").read_text("utf-8").split())
