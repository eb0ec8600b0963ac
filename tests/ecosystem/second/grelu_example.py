"""Its tutorial's training on DNA sequences: a convolutional model with early stopping, tested, loaded, tuned, asked"""

# requires: grelu==1.1.0
# domain: genomics

from pathlib import Path

import numpy as np
import pandas as pd
from grelu.data.dataset import DFSeqDataset
from grelu.lightning import LightningModel
from pytorch_lightning import seed_everything


def sequences(count, seed):
    drawn = np.random.default_rng(seed)
    texts = ["".join(drawn.choice(list("ACGT"), 40)) for _ in range(count)]
    return pd.DataFrame({"seq": texts, "rich": [int(text.count("G") + text.count("C") > 20) for text in texts]})


def params(**more):
    return {
        "task": "binary",
        "lr": 1e-2,
        "logger": "csv",
        "name": "run",
        "batch_size": 16,
        "num_workers": 1,
        "devices": "cpu",
        "save_dir": "experiment",
        "optimizer": "adam",
        "max_epochs": 3,
        "checkpoint": True,
        "early_stopping": True,
        **more,
    }


if __name__ == "__main__":
    print("START")
    seed_everything(0)
    train = DFSeqDataset(sequences(64, 0), rc=True, augment_mode="random", seed=0)
    val, test = DFSeqDataset(sequences(32, 1)), DFSeqDataset(sequences(32, 2))
    structure = {"model_type": "ConvModel", "n_tasks": 1, "stem_channels": 8, "channel_init": 8, "n_conv": 1}
    model = LightningModel(structure, params())
    trainer = model.train_on_dataset(train, val)
    print("RESULT", trainer.current_epoch, trainer.global_step)
    print("RESULT", sorted((name, value.item()) for name, value in trainer.callback_metrics.items()))
    best = Path(trainer.checkpoint_callback.best_model_path)
    print("RESULT", best.name, trainer.checkpoint_callback.best_model_score.item())
    loaded = LightningModel.load_from_checkpoint(best, weights_only=False)
    print("RESULT", sum(p.double().sum().item() for p in loaded.parameters()), loaded.data_params["train"])
    print("RESULT", loaded.test_on_dataset(test, devices="cpu").to_dict())
    print("RESULT", loaded.predict_on_dataset(test, devices="cpu").astype(float).sum())
    trainer = loaded.tune_on_dataset(train, val, final_pool_func="max", freeze_embedding=True)
    print("RESULT", trainer.global_step, loaded.predict_on_seqs(["ACGTACGTGG" * 4]).tolist())
    print("RESULT", sum(p.double().sum().item() for p in loaded.parameters()))
