"""Its `lucid-yolo fit` with the packaged configuration, on twelve small images: averaged weights, metrics, files."""

# requires: lucid-yolo==0.5.0.dev2
# domain: vision

import csv
import json
from pathlib import Path

import numpy as np
from lucid_yolo.cli.train import main
from PIL import Image


def write(root, split, count, draws):
    """Write a split in COCO's layout: coloured boxes on noise."""
    (folder := root / f"{split}2017").mkdir(parents=True)
    (root / "annotations").mkdir(exist_ok=True)
    images, annotations = [], []
    for index in range(count):
        pixels = draws.integers(0, 60, (64, 64, 3), dtype=np.uint8)
        x, y, w, h = (int(v) for v in (*draws.integers(4, 24, 2), *draws.integers(16, 32, 2)))
        kind = index % 2
        pixels[y : y + h, x : x + w, kind] = 220
        Image.fromarray(pixels).save(folder / f"{index}.png")
        images.append({"id": index, "file_name": f"{index}.png", "width": 64, "height": 64})
        polygon = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        annotations.append(
            {
                "id": index + 1,
                "image_id": index,
                "category_id": kind + 1,
                "bbox": [x, y, w, h],
                "area": w * h,
                "iscrowd": 0,
                "segmentation": polygon,
            }
        )
    categories = [{"id": 1, "name": "red"}, {"id": 2, "name": "green"}]
    told = {"images": images, "annotations": annotations, "categories": categories}
    (root / "annotations" / f"instances_{split}2017.json").write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    draws = np.random.default_rng(0)
    write(Path("data"), "train", 12, draws)
    write(Path("data"), "val", 4, draws)
    print("START")
    options = ["--data.data_root", "data", "--data.img_size", "64", "--data.batch_size", "4", "--data.num_workers", "0"]
    cli = main(["fit", "--config", "det_smoke.yaml", *options, "--trainer.max_epochs", "3", "--model.num_classes", "2"])
    for name, value in sorted(cli.trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    print("RESULT", sum(p.double().sum().item() for p in cli.model.parameters()))
    log = next(Path().rglob("metrics.csv"))
    with log.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    print("RESULT", [sorted((name, value) for name, value in row.items() if value) for row in rows[-3:]])
    print("RESULT", sorted(path.name for path in Path().rglob("*") if path.suffix in (".ckpt", ".yaml")))
