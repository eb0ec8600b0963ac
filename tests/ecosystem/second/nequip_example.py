"""`nequip-train` with the configuration of its own tests: toy copper, schedules of the loss, test, files of frames."""

# requires: nequip==0.19.1
# domain: materials
# compat: --pickle

import csv
import importlib.util
import os
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    package = Path(importlib.util.find_spec("nequip").origin).parent
    shutil.copy(package / "utils" / "unittests" / "minimal_toy_emt.yaml", "config.yaml")
    os.environ["TEST_VAL_TWO"] = "2"
    logger = "+trainer.logger._target_=lightning.pytorch.loggers.CSVLogger"
    sys.argv[1:] = [
        "hydra.run.dir=outputs",
        logger,
        "+trainer.logger.save_dir=outputs",
        "data.split_dataset.dataset.supercell=[2,2,2]",
    ]
    from nequip.scripts.train import main

    print("START")
    main()
    with next(Path("outputs").rglob("metrics.csv")).open(encoding="utf-8") as file:
        for row in list(csv.DictReader(file))[-4:]:
            kept = {name: value for name, value in row.items() if value and "time" not in name}
            print("RESULT", sorted(kept.items()))
    print("RESULT", sorted(path.name for path in Path("outputs").rglob("*.ckpt")))
    for path in sorted(Path("outputs").glob("test*.xyz")):
        print("RESULT", path.name, path.read_text("utf-8")[:400].split())
