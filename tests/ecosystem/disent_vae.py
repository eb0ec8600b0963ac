"""A beta-VAE on generated squares, with an annealed beta from its schedules."""

# requires: disent==0.8.0
# domain: representation learning

import lightning.pytorch as pl
from disent.dataset import DisentDataset
from disent.dataset.data import XYObjectData
from disent.dataset.sampling import SingleSampler
from disent.dataset.transform import ToImgTensorF32
from disent.frameworks.vae import BetaVae
from disent.model import AutoEncoder
from disent.model.ae import DecoderConv64, EncoderConv64
from disent.schedule import CyclicSchedule
from torch.utils.data import DataLoader

if __name__ == "__main__":
    print("START")
    pl.seed_everything(0)
    data = DisentDataset(XYObjectData(), sampler=SingleSampler(), transform=ToImgTensorF32(), augment=None)
    loader = DataLoader(data, 16, shuffle=True)
    network = AutoEncoder(
        encoder=EncoderConv64(x_shape=data.gt_data.x_shape, z_size=4, z_multiplier=2),
        decoder=DecoderConv64(x_shape=data.gt_data.x_shape, z_size=4),
    )
    config = BetaVae.cfg(optimizer="adam", optimizer_kwargs={"lr": 1e-3}, loss_reduction="mean_sum", beta=4)
    module = BetaVae(network, cfg=config)
    module.register_schedule("beta", CyclicSchedule(period=8))
    trainer = pl.Trainer(
        max_steps=12, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(module, loader)
    print("RESULT", float(sum(p.sum() for p in module.parameters())), module.cfg.beta)
    print("RESULT", {name: float(value) for name, value in sorted(trainer.callback_metrics.items())})
