"""SASRec by its universal module: fit with its metrics on two loaders, best checkpoint, top items by predict."""

# requires: replay-rec==0.22.0
# domain: recommenders
# compat: --pickle

import lightning as L
import torch
from replay.data import FeatureHint, FeatureSource, FeatureType
from replay.data.nn import TensorFeatureInfo, TensorFeatureSource, TensorSchema
from replay.nn.lightning import LightningModule
from replay.nn.lightning.callback import ComputeMetricsCallback, TorchTopItemsCallback
from replay.nn.lightning.optimizer import OptimizerFactory
from replay.nn.lightning.scheduler import LRSchedulerFactory
from replay.nn.sequential import SasRec
from torch.utils.data import DataLoader, Dataset

ITEMS, LENGTH = 20, 8


class Sessions(Dataset):
    """Walks over the items, one after the other."""

    def __init__(self):
        starts = torch.randint(0, ITEMS, (64, 1))
        self.walks = (starts + torch.arange(LENGTH + 1) * torch.randint(1, 3, (64, 1))) % ITEMS

    def __len__(self):
        return len(self.walks)

    def __getitem__(self, index):
        walk = self.walks[index]
        return {
            "query_id": torch.tensor(index),
            "feature_tensors": {"item_id": walk[:-1]},
            "padding_mask": torch.ones(LENGTH, dtype=torch.bool),
            "positive_labels": walk[1:, None],
            "target_padding_mask": torch.ones(LENGTH, 1, dtype=torch.bool),
            "ground_truth": walk[-1:],
            "train": walk[:-1],
        }


if __name__ == "__main__":
    print("START")
    L.seed_everything(0)
    item = TensorFeatureInfo(
        "item_id",
        is_seq=True,
        feature_type=FeatureType.CATEGORICAL,
        embedding_dim=16,
        padding_value=ITEMS,
        cardinality=ITEMS,
        feature_hint=FeatureHint.ITEM_ID,
        feature_sources=[TensorFeatureSource(FeatureSource.INTERACTIONS, "item_id")],
    )
    network = SasRec.from_params(
        TensorSchema([item]), embedding_dim=16, num_heads=2, num_blocks=1, max_sequence_length=LENGTH
    )
    model = LightningModule(network, OptimizerFactory(learning_rate=0.01), LRSchedulerFactory())
    data = Sessions()
    best = L.pytorch.callbacks.ModelCheckpoint("kept", monitor="recall@10/dataloader_idx_0", mode="max", save_top_k=1)
    metrics = ComputeMetricsCallback(ks=[1, 10], item_count=ITEMS, verbose=False)
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "logger": L.pytorch.loggers.CSVLogger("logs")}
    trainer = L.Trainer(max_epochs=3, callbacks=[metrics, best], **quiet)
    trainer.fit(model, DataLoader(data, 16, shuffle=True), [DataLoader(data, 16), DataLoader(data, 32)])
    print("RESULT", {name: float(value) for name, value in sorted(trainer.callback_metrics.items())})
    top = TorchTopItemsCallback(top_k=3, query_column="query_id")
    trainer = L.Trainer(callbacks=[top], inference_mode=True, **quiet)
    trainer.predict(model, DataLoader(data, 16), return_predictions=False)
    queries, items, scores = top.get_result()
    print("RESULT", items[:4].tolist(), float(scores.sum()))
