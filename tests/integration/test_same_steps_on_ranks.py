"""What a rank decides its steps by is the same on all of them: a scheduler's metric, the loss of a line search."""

import json

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_core.errors import ConfigError
from lt_loops import Trainer
from lt_parallel import FSDP
from lt_strategies import DDP

pytestmark = pytest.mark.ddp

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def rows(count):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, x.sum(1, keepdim=True).sin())


def fitted(module, ranks=1, count=24, batch_size=8, strategy=DDP):
    where = {"strategy": strategy(launcher="fork"), "devices": ranks} if ranks > 1 else {"devices": 1}
    trainer = Trainer(accelerator="cpu", max_epochs=2, **QUIET, **where)
    trainer.fit(module, DataLoader(rows(count), batch_size=batch_size // ranks))
    return torch.cat([value.flatten() for value in module.state_dict().values()])


class OnPlateau(LightningModule):
    """Rank 0 says that nothing gets better, rank 1 that all does, where it says anything."""

    def __init__(self, folder, interval, **how):
        super().__init__()
        self.folder, self.interval, self.how = folder, interval, how
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        value = 1.0 if self.global_rank == 0 else 1.0 / (1 + self.global_step)
        self.log("seen", value, **self.how)
        return mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = {"scheduler": ReduceLROnPlateau(optimizer, patience=0), "monitor": "seen", "interval": self.interval}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def on_train_end(self):
        found = [self.trainer.optimizers[0].param_groups[0]["lr"], *self.layer.weight.flatten().tolist()]
        (self.folder / f"{self.global_rank}.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("interval", "how"),
    [
        ("step", {}),
        ("epoch", {}),
        ("step", {"on_step": True, "on_epoch": True}),
        ("epoch", {"on_step": False, "on_epoch": True, "rank_zero_only": True}),
    ],
)
def test_a_scheduler_steps_all_ranks_by_one_metric(interval, how, tmp_path):
    fitted(OnPlateau(tmp_path, interval, **how), ranks=2)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    assert first[0] == pytest.approx(0.1 ** (6 if interval == "step" else 2))  # rank 0's word


class BySearch(LightningModule):
    """LBFGS compares losses: to end its iterations, and in a line search."""

    def __init__(self, search, weighted=False):
        super().__init__()
        torch.manual_seed(3)
        self.search, self.weighted = search, weighted
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def training_step(self, batch, batch_idx):
        loss = mse_loss(self.layers(batch[0]), batch[1])
        return {"loss": loss, "loss_weight": len(batch[0])} if self.weighted else loss

    def configure_optimizers(self):
        return torch.optim.LBFGS(
            self.parameters(), lr=0.5, max_iter=4, tolerance_change=1e-3, line_search_fn=self.search
        )


@pytest.mark.parametrize(
    ("search", "count", "weighted"),
    [(None, 24, False), ("strong_wolfe", 24, False), ("strong_wolfe", 13, False), ("strong_wolfe", 13, True)],
)
def test_an_optimizer_that_compares_losses_compares_those_of_all_ranks(search, count, weighted):
    alone = fitted(BySearch(search, weighted), count=count)
    torch.testing.assert_close(fitted(BySearch(search, weighted), 2, count), alone, rtol=1e-4, atol=1e-4)


def test_lbfgs_of_shards_is_refused_before_the_first_step():
    with pytest.raises(ConfigError, match=r"'fsdp'.*LBFGS.*strategy='ddp'.*\[LT302\]"):
        fitted(BySearch(None), 2, strategy=FSDP)
