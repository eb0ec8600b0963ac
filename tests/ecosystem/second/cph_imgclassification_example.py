"""Its command line with the README's configuration on small pictures, in full precision: fit, best, ONNX file, test"""

# requires: cph-imgclassification==0.1.3
# domain: vision

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from cph_imgclassification.__main__ import main
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

README = """
# Image Classification Model Configuration
seed_everything: true

trainer:
  callbacks:
    - class_path: lightning.pytorch.callbacks.ModelCheckpoint
      init_args:
        filename: "{epoch}-{val_acc:.2f}.best"
        monitor: "val_acc"
        mode: "max"
        save_top_k: 1
    - class_path: cph_imgclassification.imageclassification.callbacks.ONNXExportCallback
      init_args:
        output_dir: "models"
        model_name: "my_model"
        input_shape: [3, 32, 32]

  logger:
    class_path: lightning.pytorch.loggers.TensorBoardLogger
    init_args:
      save_dir: "lightning_logs"
      name: "MyProjectTraining"

  max_epochs: 3
  accelerator: auto
  devices: auto

model:
  class_path: cph_imgclassification.imageclassification.modelmodule.ModelModuleIMG
  init_args:
    lr: 0.001
    weight_decay: 0.0001
    model:
      class_path: cph_imgclassification.imageclassification.modelfactory.ImageClassificationModel
      init_args:
        input_channels: 3
        num_classes: 0  # Auto-set from datamodule
        architecture: "simple"  # "simple", "medium", "deep", or "custom"
        input_size: [32, 32]

optimizer:
  class_path: torch.optim.Adam
  init_args:
    lr: 0.001
    weight_decay: 0.0001

data:
  class_path: cph_imgclassification.imageclassification.datamodule.DataModuleIMG
  init_args:
    data_dir: "YourProjectName/data/images"
    image_size: [32, 32]
    batch_size: 16
    num_workers: 0
    val_split: 0.2
    random_seed: 42
    augmentation:
      enabled: true
      rotation: 15
      horizontal_flip: true
    normalization:
      mean: [0.485, 0.456, 0.406]
      std: [0.229, 0.224, 0.225]
    save_preprocessor: true
    preprocessor_path: "models/label_encoder.joblib"

fit:
  ckpt_path: null

test:
  ckpt_path: best
"""

if __name__ == "__main__":
    draws = np.random.default_rng(0)
    for number, name in enumerate(("class1", "class2", "class3")):
        folder = Path("YourProjectName/data/images", name)
        folder.mkdir(parents=True)
        for count in range(20):
            picture = draws.integers(0, 200, (40, 40, 3), dtype=np.uint8)
            picture[..., number] += 40
            Image.fromarray(picture).save(folder / f"image{count + 1}.png")
    Path("config.yaml").write_text(README, "utf-8")
    print("START")
    sys.argv[1:] = ["--config", "config.yaml"]
    main()
    (folder,) = Path("lightning_logs/MyProjectTraining").iterdir()
    events = EventAccumulator(str(folder)).Reload()
    for name in sorted(events.Tags()["scalars"]):
        print("RESULT", name, [(event.step, event.value) for event in events.Scalars(name)])
    (best,) = folder.rglob("*.ckpt")
    saved = torch.load(best, weights_only=True)
    weights = sum(value.double().sum().item() for value in saved["state_dict"].values())
    print("RESULT", best.name, saved["epoch"], saved["global_step"], weights)
    session = onnxruntime.InferenceSession("models/my_model.onnx")
    (output,) = session.run(None, {"input": np.ones((1, 3, 32, 32), np.float32)})
    print("RESULT", output.tolist())
