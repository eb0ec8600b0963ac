"""A loss for each optimizer trains sharded networks as it trains one process's, and no step is left out in silence."""

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_core.errors import ConfigError
from lt_loops import Trainer
from lt_parallel import FSDP, ModelParallel
from lt_strategies import DDP

pytestmark = pytest.mark.fsdp

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Gan(LightningModule):
    """Two networks in one group each, or layer by layer; the generator rests in some batches."""

    def __init__(self, layers):
        super().__init__()
        torch.manual_seed(5)
        kind = nn.ModuleList if layers else lambda parts: nn.Sequential(*parts)
        self.gen = kind([nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)])
        self.disc = kind([nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)])

    def training_step(self, batch, batch_idx):
        def through(parts, x):
            for part in parts:
                x = part(x)
            return x

        fake = through(self.gen, batch)
        fooled, caught, real = (through(self.disc, x) for x in (fake, fake.detach(), batch))
        gen = None if batch_idx % 3 == 1 else softplus(-fooled).mean()
        return {"gen": gen, "disc": softplus(caught).mean() + softplus(-real).mean()}

    def configure_optimizers(self):
        return {name: torch.optim.Adam(getattr(self, name).parameters(), lr=0.01) for name in ("gen", "disc")}


class OwnBackward(Gan):
    def backward(self, loss, *args, **kwargs):
        loss.backward(*args, **kwargs)


def trained(module, ranks=1, window=1, **where):
    data = torch.randn(29, 4, generator=torch.Generator().manual_seed(0))
    trainer = Trainer(
        accelerator="cpu", devices=ranks, max_epochs=2, accumulate_grad_batches=window, gradient_clip_val=0.5,
        **QUIET, **where,
    )  # fmt: skip
    trainer.fit(module, DataLoader(data, batch_size=8 // ranks))
    assert trainer.global_step == 8 // window
    return module.state_dict()


class Split(Gan):
    def configure_model(self):
        if isinstance(self.gen[0].weight, nn.Parameter) and not hasattr(self.gen[0].weight, "full_tensor"):
            for part in (*self.gen, *self.disc):
                torch.distributed.fsdp.fully_shard(part, mesh=self.device_mesh["data_parallel"])


@pytest.mark.parametrize(
    ("kind", "layers", "ranks", "window", "strategy"),
    [
        (Gan, True, 2, 1, lambda: FSDP(launcher="fork")),
        (Gan, False, 2, 2, lambda: FSDP(launcher="fork")),
        (Gan, True, 2, 2, lambda: FSDP(launcher="fork", sync_each_batch=False)),
        (Gan, True, 4, 2, lambda: FSDP(launcher="fork", device_mesh=(2, 2))),
        (OwnBackward, True, 2, 2, lambda: FSDP(launcher="fork")),
        (Split, True, 2, 1, lambda: ModelParallel(launcher="fork", data_parallel_size=2)),
        (Split, True, 2, 2, lambda: ModelParallel(launcher="fork", data_parallel_size=2)),  # at a step one rests
        (Split, True, 2, 2, lambda: FSDP(launcher="fork", sync_each_batch=False)),
    ],
)
def test_a_loss_for_each_optimizer_trains_shards_as_one_process(kind, layers, ranks, window, strategy):
    alone = trained(Gan(layers), window=window)
    for name, value in trained(kind(layers), ranks, window, strategy=strategy()).items():
        torch.testing.assert_close(value, alone[name], rtol=1e-5, atol=1e-5, msg=name)


class Skips(Gan):
    """Has no loss in the second batch of a window; ``weight`` belongs to no layer."""

    def __init__(self):
        super().__init__(layers=True)
        self.weight = nn.Parameter(torch.ones(4))

    def training_step(self, batch, batch_idx):
        losses = super().training_step(batch * self.weight, 0)
        return None if batch_idx % 2 else losses["gen"] + losses["disc"]

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def test_a_batch_without_a_loss_leaves_the_gradients_of_shards_as_they_are():
    copies = trained(Skips(), 2, 2, strategy=DDP(launcher="fork"))
    for name, value in trained(Skips(), 2, 2, strategy=FSDP(launcher="fork")).items():
        torch.testing.assert_close(value, copies[name], rtol=1e-5, atol=1e-5, msg=name)


class Manual(Gan):
    def __init__(self):
        super().__init__(layers=True)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["disc"]
        self.manual_backward(loss, inputs=list(self.disc.parameters()))

    def configure_optimizers(self):
        return list(super().configure_optimizers().values())


def test_a_backward_for_shards_alone_that_would_reach_none_is_an_error():
    with pytest.raises(ConfigError, match=r"inputs=.*toggle_optimizer.*\[LT778\]"):
        trained(Manual(), 2, strategy=FSDP(launcher="fork"))
