"""CoLES, contrastive learning on sequences of events: training with its recall metric, then embeddings by predict."""

# requires: pytorch-lifestream==0.7.0
# domain: self-supervised

from functools import partial

import numpy as np
import pytorch_lightning as pl
import torch
from ptls.data_load.datasets import MemoryMapDataset
from ptls.frames import PtlsDataModule
from ptls.frames.coles import ColesDataset, CoLESModule
from ptls.frames.coles.split_strategy import SampleSlices
from ptls.nn import RnnSeqEncoder, TrxEncoder

if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    draw = np.random.RandomState(0)
    people = [
        {
            "event_time": torch.arange(60),
            "kind": torch.from_numpy(draw.randint(1, 2 + n % 5, 60)),
            "amount": torch.from_numpy(draw.randn(60).astype("float32")),
        }
        for n in range(32)
    ]
    encoder = RnnSeqEncoder(
        trx_encoder=TrxEncoder(
            embeddings={"kind": {"in": 8, "out": 4}}, numeric_values={"amount": "identity"}, embeddings_noise=0.003
        ),
        hidden_size=8,
        type="gru",
    )
    model = CoLESModule(
        seq_encoder=encoder,
        optimizer_partial=partial(torch.optim.Adam, lr=0.01),
        lr_scheduler_partial=partial(torch.optim.lr_scheduler.StepLR, step_size=1, gamma=0.9),
    )
    pairs = ColesDataset(MemoryMapDataset(people), splitter=SampleSlices(split_count=5, cnt_min=10, cnt_max=20))
    data = PtlsDataModule(
        train_data=pairs,
        valid_data=pairs,
        train_batch_size=8,
        valid_batch_size=8,
        train_num_workers=0,
        valid_num_workers=0,
    )
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_epochs=3, default_root_dir="run", **quiet)
    trainer.fit(model, data)
    print("RESULT", {name: float(value) for name, value in sorted(trainer.callback_metrics.items())})
    print("RESULT", float(sum(p.sum() for p in model.parameters())))
