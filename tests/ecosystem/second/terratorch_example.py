"""`terratorch fit`, `test` and `predict` by a configuration: segmentation of small images with a ResNet and a U-Net."""

# requires: terratorch==1.2.11
# domain: geo
# compat: --pickle
# differs: the row of a test by a file is written at the file's step, on Lightning at step 0; all else is equal

import csv
import sys
from pathlib import Path

import numpy as np
import rasterio
from terratorch.__main__ import main

CONFIG = """
seed_everything: 42
trainer:
  accelerator: cpu
  max_epochs: 3
  log_every_n_steps: 1
  default_root_dir: output
  logger:
    class_path: CSVLogger
    init_args:
      save_dir: output
      name: logs
  callbacks:
    - class_path: RichProgressBar
    - class_path: LearningRateMonitor
      init_args:
        logging_interval: epoch
    - class_path: EarlyStopping
      init_args:
        monitor: val/loss
        patience: 20
    - class_path: ModelCheckpoint
      init_args:
        dirpath: output/checkpoints
        mode: max
        monitor: val/mIoU
        filename: best-{epoch:02d}
data:
  class_path: GenericNonGeoSegmentationDataModule
  init_args:
    batch_size: 4
    num_workers: 0
    dataset_bands: [BLUE, GREEN, RED]
    output_bands: [RED, GREEN, BLUE]
    rgb_indices: [0, 1, 2]
    train_data_root: data/train/images
    train_label_data_root: data/train/masks
    val_data_root: data/val/images
    val_label_data_root: data/val/masks
    test_data_root: data/val/images
    test_label_data_root: data/val/masks
    img_grep: "*_image.tif"
    label_grep: "*_mask.tif"
    means: [0.3, 0.3, 0.3]
    stds: [0.2, 0.2, 0.2]
    num_classes: 2
    train_transform:
      - class_path: ToTensorV2
    val_transform:
      - class_path: ToTensorV2
    test_transform:
      - class_path: ToTensorV2
    no_data_replace: 0
    no_label_replace: -1
model:
  class_path: terratorch.tasks.SemanticSegmentationTask
  init_args:
    model_factory: EncoderDecoderFactory
    model_args:
      backbone: timm_resnet18
      backbone_pretrained: false
      backbone_out_indices: [1, 2, 3, 4]
      decoder: UNetDecoder
      decoder_channels: [32, 16, 8, 8]
      head_dropout: 0.1
      num_classes: 2
    loss: dice
    plot_on_val: false
    ignore_index: -1
    freeze_backbone: false
optimizer:
  class_path: torch.optim.AdamW
  init_args:
    lr: 1.e-3
    weight_decay: 0.05
lr_scheduler:
  class_path: ReduceLROnPlateau
  init_args:
    monitor: val/loss
"""


def write(folder, count, draws):
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        mask = np.zeros((64, 64), dtype="int16")
        x, y = draws.integers(0, 40, 2)
        mask[y : y + 20, x : x + 20] = 1
        image = (draws.random((3, 64, 64)) * 0.3 + mask * 0.5).astype("float32")
        for data, path in ((image, f"images/{number}_image.tif"), (mask[None], f"masks/{number}_mask.tif")):
            with rasterio.open(
                folder / path, "w", driver="GTiff", width=64, height=64, count=len(data), dtype=data.dtype
            ) as file:
                file.write(data)


if __name__ == "__main__":
    draws = np.random.default_rng(0)
    write(Path("data/train"), 12, draws)
    write(Path("data/val"), 4, draws)
    Path("config.yaml").write_text(CONFIG, "utf-8")
    print("START")
    sys.argv[1:] = ["fit", "--config", "config.yaml"]
    main()
    (best,) = Path("output/checkpoints").glob("*.ckpt")
    print("RESULT", best.name)
    sys.argv[1:] = ["test", "--config", "config.yaml", "--ckpt_path", str(best)]
    main()
    options = ["--predict_output_dir", "predicted", "--data.init_args.predict_data_root", "data/val/images"]
    sys.argv[1:] = ["predict", "--config", "config.yaml", "--ckpt_path", str(best), *options]
    main()
    for log in sorted(Path("output").rglob("metrics.csv")):
        with log.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                print("RESULT", sorted((name, value) for name, value in row.items() if value))
    for path in sorted(Path("predicted").rglob("*.tif")):
        with rasterio.open(path) as file:
            print("RESULT", path.name, int(file.read().sum()))
