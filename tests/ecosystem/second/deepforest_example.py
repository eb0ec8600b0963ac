"""Its documentation's training on its own picture of trees, from files: fit, validate, predictions, save and load"""

# requires: deepforest==2.1.0
# domain: ecology

import csv
import os
from pathlib import Path

os.environ["TORCH_HOME"] = "torch"

import torch
from deepforest import get_data, main
from deepforest.models.retinanet import RetinaNetHub
from pytorch_lightning import seed_everything
from pytorch_lightning.callbacks import ModelCheckpoint
from torchvision.models import resnet50

if __name__ == "__main__":
    seed_everything(0)
    Path("torch/hub/checkpoints").mkdir(parents=True)  # in place of the download
    torch.save(resnet50().state_dict(), "torch/hub/checkpoints/resnet50-0676ba61.pth")
    RetinaNetHub(num_classes=1, label_dict={"Tree": 0}, min_size=128, max_size=128).save_pretrained("tree")
    print("START")
    annotations = get_data("testfile_deepforest.csv")
    folder = str(Path(annotations).parent)
    m = main.deepforest(
        config_args={
            "model": {"name": "tree"},
            "train": {"csv_file": annotations, "root_dir": folder, "epochs": 3},
            "validation": {"csv_file": annotations, "root_dir": folder, "val_accuracy_interval": 1},
        }
    )
    checkpoint = ModelCheckpoint(dirpath="files", save_top_k=1, monitor="train_loss", mode="min")
    m.create_trainer(callbacks=[checkpoint], log_every_n_steps=1)
    m.trainer.fit(m)
    for path in sorted(Path("lightning_logs").rglob("metrics.csv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                print("RESULT", sorted((name, value) for name, value in row.items() if value))
    print("RESULT", Path(checkpoint.best_model_path).name, checkpoint.best_model_score.item())
    for name, value in sorted(m.trainer.validate(m)[0].items()):
        print("RESULT", name, value)
    m.config.score_thresh = m.model.score_thresh = 0.0
    boxes = m.predict_file(annotations, folder)
    print("RESULT", len(boxes), boxes.score.sum())
    m.save_model("checkpoint.pl")
    loaded = main.deepforest.load_from_checkpoint("checkpoint.pl")
    loaded.model.score_thresh = 0.0
    boxes = loaded.predict_image(path=get_data("OSBS_029.png"))
    print("RESULT", len(boxes), boxes.score.sum())
    print("RESULT", sum(p.double().sum().item() for p in loaded.parameters()))
