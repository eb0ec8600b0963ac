"""The README's data module: pickled samples in tar files, shuffled and batched by two workers; fit, test, predict"""

# requires: bionemo-webdatamodule==1.0.0
# domain: biology

import pickle
import random
from pathlib import Path

import lightning as L
import torch
import webdataset as wds
from bionemo.webdatamodule.datamodule import PickledDataWDS, Split
from lightning.pytorch.loggers import CSVLogger
from webdataset import batched, shuffle

COUNTS = {Split.train: 40, Split.val: 12, Split.test: 12}


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(7, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, batch):
        return self.layers(batch[:, :7])

    def loss(self, batch, name):
        loss = torch.nn.functional.mse_loss(self(batch), batch[:, 7:])
        self.log(name, loss, batch_size=len(batch))
        return loss

    def training_step(self, batch, batch_idx):
        return self.loss(batch, "train_loss")

    def validation_step(self, batch, batch_idx):
        self.loss(batch, "val_loss")

    def test_step(self, batch, batch_idx):
        self.loss(batch, "test_loss")

    def predict_step(self, batch, batch_idx):
        return self(batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def untuple(source):
    return (sample for (sample,) in source)


def stacked(samples):
    return torch.vstack(samples)


if __name__ == "__main__":
    L.seed_everything(0)
    Path("pickles").mkdir()
    names = {split: [f"{split.name}{number}" for number in range(count)] for split, count in COUNTS.items()}
    for name in (each for split in Split for each in names[split]):
        x = torch.randn(7)
        Path(f"pickles/{name}.tensor.pyd").write_bytes(pickle.dumps(torch.cat([x, x.sum(0, keepdim=True).sin()])))
    print("START")
    seed_rng_shfl = 27193781
    batch = batched(4, collation_fn=stacked)
    data_module = PickledDataWDS(
        "pickles",
        names,
        "tensor.pyd",
        {split: f"tars-{split.name}" for split in Split},
        n_tars_wds=4,
        prefix_tars_wds="shards",
        pipeline_wds={
            Split.train: [untuple, shuffle(COUNTS[Split.train], rng=random.Random(seed_rng_shfl))],
            Split.val: untuple,
            Split.test: untuple,
        },
        pipeline_prebatch_wld={
            Split.train: [shuffle(COUNTS[Split.train], rng=random.Random(seed_rng_shfl)), batch],
            Split.val: batch,
            Split.test: batch,
        },
        kwargs_wds={
            split: {
                "shardshuffle": split == Split.train,
                "nodesplitter": wds.split_by_node,
                "seed": seed_rng_shfl,
            }
            for split in Split
        },
        kwargs_wld={split: {"num_workers": 2} for split in Split},
        invoke_wds={split: [("with_epoch", {"nbatches": 16})] for split in Split},
        invoke_wld={split: [("with_epoch", {"nbatches": 5})] for split in Split},
    )
    logger = CSVLogger(".")
    trainer = L.Trainer(accelerator="cpu", devices=1, max_epochs=3, logger=logger, log_every_n_steps=2)
    model = Model()
    trainer.fit(model, datamodule=data_module)
    print("RESULT", trainer.current_epoch, trainer.global_step)
    for row in Path(logger.log_dir, "metrics.csv").read_text("utf-8").splitlines():
        print("RESULT", row)
    print("RESULT", sum(p.double().sum().item() for p in model.parameters()))
    print("RESULT", trainer.test(model, datamodule=data_module))
    predictions = trainer.predict(model, datamodule=data_module)
    print("RESULT", len(predictions), torch.cat(predictions).double().sum().item())
