"""Its commands from raw pictures on: task conversion, `yucca_preprocess`, `yucca_train` in 2D"""

# requires: yucca==2.3.7
# domain: medicine

import os
import re
import sys
from functools import partial
from pathlib import Path

import nibabel as nib
import numpy as np
import torch

if __name__ == "__main__":
    for name in ("SOURCE", "RAW_DATA", "PREPROCESSED_DATA", "MODELS", "RESULTS"):
        os.environ[f"YUCCA_{name}"] = str(Path(name.lower()).absolute())
    from yucca.pipeline.managers import YuccaManager
    from yucca.pipeline.run import run_preprocessing, run_task_conversion, run_training

    draws = np.random.default_rng(0)
    for kind in ("images", "labels"):
        Path("source/dataset_test0", f"all_{kind}").mkdir(parents=True)
    for number in range(7):
        label = np.zeros((32, 32, 32))
        at = draws.integers(4, 20, 3)
        label[tuple(slice(start, start + 8) for start in at)] = 1
        image = draws.normal(size=label.shape) + 2 * label
        for kind, values in (("images", image), ("labels", label)):
            nib.save(nib.Nifti1Image(values, np.eye(4)), f"source/dataset_test0/all_{kind}/{number}.nii.gz")
    print("START")
    task = ["-t", "Task000_TEST_SEGMENTATION"]
    sys.argv[1:] = [*task, "-d", "dataset_test0"]
    run_task_conversion.main()
    sys.argv[1:] = task
    run_preprocessing.main()
    sizes = ["--batch_size", "4", "--patch_size", "32", "--num_workers", "0"]
    steps = ["--epochs", "2", "--train_batches_per_step", "4", "--val_batches_per_step", "2", "--precision", "32"]
    seeded = YuccaManager.seed_everything_and_get_seed_config  # by the clock
    YuccaManager.seed_everything_and_get_seed_config = partial(seeded, manual_seed=0)
    sys.argv[1:] = [*task, "-m", "TinyUNet", "-d", "2D", *sizes, *steps]
    run_training.main()
    folder = next(Path("models").rglob("version_0"))
    print("RESULT", sorted(path.name for path in folder.rglob("*.*") if "wandb" not in path.parts))
    log = (folder / "training_log.txt").read_text("utf-8")
    print("RESULT", re.findall(r"(?:train|val)/\w+\W+[\d.e-]+", log))
    best = torch.load(next(folder.rglob("best.ckpt")), weights_only=False)
    print("RESULT", best["epoch"], sum(value.double().sum().item() for value in best["state_dict"].values()))
